"""Marks one after another on a line: each begins where the one before it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.text import measure


class Flow:
    """A line of text from ``x`` on, with its baseline at ``y``. What was put on it is iterated over at the end."""

    def __init__(self, x: float, y: float) -> None:
        self.x, self.y = x, y
        self._marks: list[Mark] = []

    def __iter__(self) -> Iterator[Mark]:
        return iter(self._marks)

    def text(self, id: str, words: str, cls: str, gap: float = 12.0) -> Flow:
        """Words, and ``gap`` pixels behind them."""
        self._marks.append(Mark(id, (self.x, self.y), f"text {cls}", words))
        self.x += measure(words, cls) + gap
        return self

    def skip(self, pixels: float) -> Flow:
        """Leave room for what somebody else draws."""
        self.x += pixels
        return self

    def sign(self, id: str, size: tuple[float, float], cls: str, up: float = 9.0, gap: float = 5.0) -> Flow:
        """A rectangle whose top is ``up`` pixels above the baseline."""
        self._marks.append(Mark(id, (self.x, self.y - up, *size), cls))
        self.x += size[0] + gap
        return self


def heading(id: str, at: tuple[float, float], title: str, what: str = "") -> Iterator[Mark]:
    """A part's title, and beside it what is to be seen there."""
    line = Flow(*at).text(id, title, "s11 bold soft")
    yield from line.text(f"{id}.what", what, "s11 soft") if what else line


def key(entries: Iterable[tuple[str, str, str, float]], at: tuple[float, float], gap: float = 13.0) -> Flow:
    """What the marks mean: of each, (id, class, words, width of its sign)."""
    line = Flow(*at)
    for id, cls, words, w in entries:
        line.sign(id, (w, 10), cls).text(f"{id}.t", words, "s10 soft", gap)
    return line
