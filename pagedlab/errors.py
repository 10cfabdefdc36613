"""The one exception for input that cannot be right: the command line prints its sentence and exits with status 2."""

import operator


class PagedlabError(ValueError):
    """Says in one or two sentences what was wrong, what is allowed, and what to do."""


def whole(number: object, name: str) -> int:
    """``number`` as a plain int. Raises PagedlabError, which calls it ``name``, where it is none (1.5, "2", None)."""
    try:
        return operator.index(number)
    except TypeError:
        raise PagedlabError(f"{name} is {number!r}; it must be a whole number.") from None
