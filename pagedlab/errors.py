"""The one exception for input that cannot be right: the command line prints its sentence and exits with status 2."""


class PagedlabError(ValueError):
    """Says in one or two sentences what was wrong, what is allowed, and what to do."""
