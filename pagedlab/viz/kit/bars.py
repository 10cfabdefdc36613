"""Bars on the strip of time: one for each step, the largest as tall as the strip."""

from __future__ import annotations

from collections.abc import Sequence

from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.strip import Strip


def time_bars(strip: Strip, values: Sequence[float], cls: str = "cell sharp ghost") -> list[Mark]:
    """``values[i]``: after step i + 1."""
    pitch, most, bottom = strip.width / strip.columns, max([1, *values]), strip.top + strip.height
    out = [Mark("time.track", (strip.left, bottom - 1, strip.width, 1), "card track")]
    for i, value in enumerate(values):
        h = strip.height * value / most
        place = (strip.x_of(i), bottom - h, max(0.5, pitch - (1 if pitch > 3 else 0)), h)
        out.append(Mark(f"time.{i + 1}", place, cls))
    return out
