"""Plain data: the only thing that leaves a learner's code and is compared.

An object of the learner's own class could say of itself that it equals everything. None, bool, int, float, str,
list and dict cannot, as long as their *exact* type is looked at; so answers are made of those and of nothing else.
"""

from __future__ import annotations

from typing import Any

MAX_ITEMS = 1_000_000
MAX_DEPTH = 50
NOTHING_YET = "nothing yet"  # what a cell gives that still is as it was shipped


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


def raised(value: Any) -> str | None:
    """What went wrong, where ``value`` is what :func:`attempt` gave for a call that raised."""
    return value.get("raised") if type(value) is dict else None


def unanswered(value: Any) -> bool:
    """Whether anything in ``value`` (plain) was left as it was shipped."""
    if type(value) is list:
        return any(map(unanswered, value))
    return type(value) is dict and (value.get("raised") == NOTHING_YET or any(map(unanswered, value.values())))


def attempt(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The plain result of a call of a learner's function, or {"raised": "the error IndexError: …"} where it raised."""
    try:
        return plain(function(*args, **kwargs))
    except NotPlain as error:
        return {"raised": str(error)}
    except NotImplementedError:
        return {"raised": NOTHING_YET}
    except Exception as error:  # whatever a learner's code raises is an answer, and a wrong one at most
        return {"raised": f"the error {type(error).__name__}: {error}"[:300]}
