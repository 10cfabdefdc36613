"""A picture is a list of marks. Nothing else goes to the front end."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple


class Mark(NamedTuple):
    """One thing to draw.

    ``cls``: class names for the style sheet. The first says what it is, and so on which layer it lies, from back to
    front: "card", "cell" and "over" (rectangles), "path" (``text`` is its outline in SVG's path language), "text",
    "top" (a rectangle in front of all). ``place``: x, y, width, height of a rectangle; x, y (baseline) of a text;
    nothing for a path. ``tip`` is said when a pointer rests on the mark, and is its name for a screen reader.

    ``id`` stays the same for the same thing from step to step: that is how it moves instead of being drawn anew.
    """

    id: str
    place: tuple[float, ...]
    cls: str
    text: str = ""
    tip: str = ""

    def to_json(self) -> list[Any]:
        """``[id, place, cls, text, tip]`` without what is empty at the end; places to a tenth of a pixel."""
        fields = [self.id, [_short(p) for p in self.place], self.cls, self.text, self.tip]
        while not fields[-1]:
            fields.pop()
        return fields


Picture = dict[str, Mark]


def picture(marks: Iterable[Mark]) -> Picture:
    """Marks by id. Raises ValueError where two share one."""
    by_id: Picture = {}
    for mark in marks:
        if mark.id in by_id:
            raise ValueError(f"two marks have the id {mark.id!r}")
        by_id[mark.id] = mark
    return by_id


def diff(old: Picture, new: Picture) -> dict[str, Any]:
    """What turns ``old`` into ``new``, ready for JSON: marks to ``set`` (new or changed) and ids to ``del``-ete.

    A step may fill or empty a whole pool. So of blocks that end up looking alike only the first is spelled out;
    ``like``: that one -> the others. Each of them gets its marks, moved to its own place and with its own number.
    """
    changed = {id for id, mark in new.items() if old.get(id) != mark}
    gone = [id for id in old if id not in new]
    like = _alike(old, new, {block_of(id) for id in (*changed, *gone)})
    copied = {block for others in like.values() for block in others}
    return {
        "set": [mark.to_json() for id, mark in new.items() if id in changed and block_of(id) not in copied],
        "del": [id for id in gone if block_of(id) not in copied],
        "like": like,
    }


@lru_cache(maxsize=1 << 14)
def block_of(id: str) -> str | None:
    """The id of the block that a mark belongs to: "block.7" of "block.7.full" and of "block.7" itself."""
    found = re.match(r".*?block\.[0-9]+", id, re.DOTALL)
    return found[0] if found else None


def _alike(old: Picture, new: Picture, changed: set[str | None]) -> dict[str, list[str]]:
    """Of the changed blocks: the first of each look -> the others that look like it."""
    stay = {b for b in changed if b in old and b in new and old[b].place == new[b].place}
    groups: dict[str, list[Mark]] = {}
    for id, mark in new.items():
        if (block := block_of(id)) in stay:
            groups.setdefault(block, []).append(mark)
    first: dict[frozenset, str] = {}
    like: dict[str, list[str]] = {}
    for block, marks in groups.items():
        model = first.setdefault(_look(new[block], marks), block)
        if model != block:
            like.setdefault(model, []).append(block)
    return like


def _look(block: Mark, marks: list[Mark]) -> frozenset:
    """What is the same for blocks that look alike: the marks' places from the block's own, words without its number."""
    number = block.id.rpartition(".")[2]
    x, y = _tenths(block.place[:2])

    def words(text: str) -> str:
        return "\0" if text == number else text.replace(f"#{number}", "\0", 1)

    def place(mark: Mark) -> tuple[int, ...]:
        tenths = _tenths(mark.place)
        return (tenths[0] - x, tenths[1] - y, *tenths[2:])

    return frozenset((m.id[len(block.id) :], place(m), m.cls, words(m.text), words(m.tip)) for m in marks)


def _tenths(place: Iterable[float]) -> tuple[int, ...]:
    return tuple(round(10 * round(p, 1)) for p in place)


def _short(x: float) -> float:
    x = round(x, 1)
    return int(x) if x == int(x) else x
