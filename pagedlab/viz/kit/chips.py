"""Chips: what can be selected. Clicking the chip "chip.NAME" selects NAME."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pagedlab.viz.kit.marks import Mark


def chip(
    name: str,
    box: tuple[float, float, float, float],
    label: str,
    chosen: bool,
    hue: str = "",
    tip: str = "",
    size: str = "s12",
    down: float = 15.0,
) -> Iterator[Mark]:
    """A chip with its ``label`` in the middle, in a request's hue ("c3"), or plain. ``down``: of the label's baseline,
    from the box's top."""
    x, y, w, _ = box
    look = f"{'chosen ' if chosen else ''}{hue}" if hue else f"plain{' chosen' if chosen else ''}"
    ink = " on" if chosen else f" hue {hue}" if hue else ""
    yield Mark(f"chip.{name}", box, f"card chip {look}", tip=tip)
    yield Mark(f"chip-name.{name}", (x + w / 2, y + down), f"text {size} bold mid{ink}", label)


def as_many_as_fit(widths: Iterable[tuple[str, float]], room: float, gap: float = 8.0, more: float = 34.0) -> list[str]:
    """The first of these (name, width) that stand side by side in ``room``; where not all do, there is ``more`` left
    for how many are not shown."""
    named = list(widths)
    shown, used = [], 0.0
    for name, w in named:
        if used + w + gap > room - (more if len(shown) + 1 < len(named) else 0):
            break
        shown.append(name)
        used += w + gap
    return shown
