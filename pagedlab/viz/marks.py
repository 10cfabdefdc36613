"""A picture is a list of marks. Nothing else goes to the front end."""

from __future__ import annotations

from collections.abc import Iterable
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


def diff(old: Picture, new: Picture) -> dict[str, list]:
    """What turns ``old`` into ``new``, ready for JSON: marks to ``set`` (new or changed) and ids to ``del``-ete."""
    return {
        "set": [mark.to_json() for id, mark in new.items() if old.get(id) != mark],
        "del": [id for id in old if id not in new],
    }


def _short(x: float) -> float:
    x = round(x, 1)
    return int(x) if x == int(x) else x
