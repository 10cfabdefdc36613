"""The one exception for input that cannot be right: the command line prints its sentence and exits with status 2."""

import numbers
import operator
from os import PathLike
from pathlib import Path


class PagedlabError(ValueError):
    """Says in one or two sentences what was wrong, what is allowed, and what to do."""


def is_whole(value: object) -> bool:
    """Is it a whole number, numpy's and torch's too? True and False are none."""
    try:
        return not isinstance(value, bool) and operator.index(value) is not None
    except TypeError:
        return False


def whole(number: object, name: str, least: int | None = None) -> int:
    """``number`` as a plain int. Raises PagedlabError, which calls it ``name``, where it is none (1.5, "2", True), or
    below ``least``."""
    if is_whole(number) and (least is None or operator.index(number) >= least):
        return operator.index(number)
    allowed = "a whole number" if least is None else f"a whole number of at least {least}"
    raise PagedlabError(f"{name} is {number!r}; it must be {allowed}.")


def is_real(value: object) -> bool:
    """Is it a number, numpy's too? True and False are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def as_path(path: str | PathLike) -> Path:
    """``path`` as a Path. Raises PagedlabError for what is no path (5, None, bytes)."""
    try:
        return Path(path)
    except TypeError:
        raise PagedlabError(f"{path!r} is no path; give the name of a file as text, or a pathlib.Path.") from None
