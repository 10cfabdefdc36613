"""Plain data: the only thing that leaves a learner's code and is compared.

An object of the learner's own class could say of itself that it equals everything. None, bool, int, float, str,
list and dict cannot, as long as their *exact* type is looked at; so answers are made of those and of nothing else.
"""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from pathlib import Path
from typing import Any

from pagedlab.terminal import printable

MAX_ITEMS = 1_000_000
MAX_DEPTH = 50
NOTHING_YET = "nothing yet"  # what a cell gives that still is as it was shipped

_NOT_THEIRS = tuple(
    {f"{folder}/" for folder in (Path(__file__).parents[1], *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))}
)
OVERWRITTEN = "the very object that the call before gave, overwritten; make a new one in each call"
FEW = 16
_gave: dict[int, tuple[Any, Any, Any]] = {}  # by function: itself, and what it gave last, as an object and plain
_places: dict[str, list[list[Any]]] = {}  # by file: first line, last line and name of each cell in it


class NotPlain(ValueError):
    """Says which kind of object an answer held that is no plain data."""


def plain(value: Any) -> Any:
    """A copy of ``value`` made of None, bool, int, float, str, list and dict (with str keys); tuples become lists.

    Raises NotPlain for anything else, subclasses of these included, and for more than a million items.
    """
    room = [MAX_ITEMS]

    def copy(item: Any, depth: int) -> Any:
        room[0] -= 1
        if room[0] < 0 or depth > MAX_DEPTH:
            raise NotPlain("too much data (more than a million items, or lists inside lists without end)")
        kind = type(item)
        if item is None or kind in (bool, float, str):
            return item
        if kind is int:
            if item.bit_length() > 4096:
                raise NotPlain("a number of more than 4096 bits")
            return item
        if kind in (list, tuple):
            return [copy(x, depth + 1) for x in item]
        if kind is dict and all(type(key) is str for key in item):
            return {key: copy(x, depth + 1) for key, x in item.items()}
        if item is ...:
            raise NotPlain(NOTHING_YET)
        raise NotPlain(
            f"something with a {kind.__name__}; allowed are plain Python numbers, strings, lists and dicts"
        )

    return copy(value, 0)


def same(a: Any, b: Any) -> bool:
    """Equal plain data of equal types: 1, 1.0 and True are three different things."""
    if type(a) is not type(b):
        return False
    if type(a) is list:
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is dict:
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b


def is_int(value: Any, least: int | None = None) -> bool:
    """A plain int, and not below ``least``."""
    return type(value) is int and (least is None or value >= least)


def is_ints(value: Any) -> bool:
    """A list of plain ints."""
    return type(value) is list and all(map(is_int, value))


def show(value: Any, limit: int = 160) -> str:
    """``value`` on one short line, or what was raised in its place."""
    text = raised(value) or repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def make_printable(record: Any, *fields: str) -> None:
    """Text in a frozen dataclass becomes one line that steers no terminal."""
    for field in fields:
        object.__setattr__(record, field, printable(getattr(record, field)))


def raised(value: Any) -> str | None:
    """What went wrong, where ``value`` is what :func:`attempt` gave for a call that raised."""
    return value.get("raised") if type(value) is dict else None


def unanswered(value: Any) -> bool:
    """Whether anything in ``value`` (plain) was left as it was shipped."""
    if type(value) is list:
        return any(map(unanswered, value))
    return type(value) is dict and (value.get("raised") == NOTHING_YET or any(map(unanswered, value.values())))


def attempt(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The plain result of a call of a learner's function, or what :func:`failed` says where it raised. The list that an
    earlier call of it gave is not to be overwritten by a later one: its caller may have it still."""
    try:
        given = function(*args, **kwargs)
        result = plain(given)
        if type(given) in (list, dict):
            before, _gave[id(function)] = _gave.pop(id(function), None), (function, given, result)
            if len(_gave) > FEW:  # those of the checks' own making, which are called once
                del _gave[next(iter(_gave))]
            if before and before[1] is given and not same(before[2], result):
                raise NotPlain(OVERWRITTEN)
        return result
    except NotPlain as error:
        return {"raised": str(error)}
    except Exception as error:  # whatever a learner's code raises is an answer, and a wrong one at most
        return failed(error)


def failed(error: Exception) -> dict[str, Any]:
    """The answer of a call that raised: {"raised": "the error IndexError: … (line 3 of your cell: …)", "error": True}.
    """
    if isinstance(error, NotImplementedError):
        return {"raised": NOTHING_YET}
    return {"raised": error_text(error), "error": True}


def error_text(error: Exception) -> str:
    """The error, and the last line of the learner's that it came through. What a learner's class lacks is named."""
    frames = [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(error.__traceback__)]
    theirs = [place for place in frames if not place[0].startswith((*_NOT_THEIRS, "<frozen", "<string"))]
    if not theirs and (lack := _lacks(error)):
        return lack
    text = f"the error {type(error).__name__}{f': {error}' if str(error) else ''}"[:240]
    if not theirs:
        return text
    file, line = theirs[-1]
    source = linecache.getline(file, line).strip()
    first, name = next(((a, name) for a, b, name in _places.get(file, ()) if a <= line <= b), (1, "your cell"))
    return f"{text} (line {line - first + 1} of {name}{': ' + source[:80] if source else ''})"


def _lacks(error: Exception) -> str | None:
    """In words, where the check asked a learner's object for what it has not; None for other errors."""
    no_length = re.fullmatch(r"object of type '(.+)' has no len\(\)", str(error))
    if isinstance(error, TypeError) and no_length:
        return f"an error (your class {no_length[1]} lacks `__len__`)"
    if not isinstance(error, AttributeError) or not error.name:
        return None
    kind = type(error.obj)
    if kind.__module__ == "builtins":
        what = "None" if error.obj is None else f"a {kind.__name__}"
        return f"an error ({what} came back where something with `{error.name}` is wanted)"
    return f"an error (your class {kind.__qualname__} lacks `{error.name}`)"


def cells_of(file: str, places: list[list[Any]]) -> None:
    """Tell which lines of a file are which of the learner's cells."""
    _places[file] = places
