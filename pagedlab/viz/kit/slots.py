"""Slots, wherever they are drawn: one outline around those written in this step, a bar where they are too narrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pagedlab.viz.kit.marks import Mark


def outlines(
    id: str,
    new: Sequence[int],
    per_line: int,
    at: tuple[float, float],
    slot: tuple[float, float],
    gap: tuple[float, float],
    cls: str,
) -> Iterator[Mark]:
    """One outline around neighbouring slots that were written in this step."""
    first = last = None
    for offset in [*sorted(set(new)), None]:  # twice where one was overwritten
        if first is not None and (offset != last + 1 or offset % per_line == 0):
            line, column = divmod(first, per_line)
            w = (last - first + 1) * (slot[0] + gap[0]) - gap[0]
            yield Mark(
                f"{id}.{first}",
                (at[0] + column * (slot[0] + gap[0]), at[1] + line * (slot[1] + gap[1]), w, slot[1]),
                cls,
            )
            first = None
        first, last = (offset if first is None else first), offset


def bar(
    id: str,
    box: tuple[float, float, float, float],
    filled: int,
    size: int,
    new: Sequence[int],
    hue: str,
    dim: str,
    outline: str = "over sharp",
) -> Iterator[Mark]:
    """Slots too narrow to draw one by one: the part that is filled, and hatching for the rest."""
    x, y, w, h = box
    part = w * filled / size
    if filled:
        yield Mark(f"{id}.full", (x, y, part, h), f"cell sharp {dim} {hue}".replace("  ", " "))
    if filled < size:
        yield Mark(f"{id}.rest", (x + part, y, w - part, h), f"cell sharp hatched {hue}" + (" faint" if dim else ""))
    if new:
        first, last = min(new), max(new) + 1
        left = x + w * first / size
        yield Mark(f"{id}.new", (left, y, max(2.0, w * (last - first) / size), h), outline)
