"""The head of a picture: its one sentence, and the badge."""

from __future__ import annotations

from collections.abc import Iterable

from pagedlab.viz.kit.badge import badge_marks, badge_width
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.text import fitted

LEFT, RIGHT = 24.0, 936.0  # of every picture: pixels, out of 960


def head_room(badge: str) -> float:
    """How wide the sentence can be beside this badge."""
    return RIGHT - LEFT - badge_width(badge) - 16


def top_line(line: str | Iterable[str], badge: str, live: bool) -> list[Mark]:
    """``line``: the one thing to see now; of several ways to say it, the first that fits."""
    sentence = fitted(line, head_room(badge), "s18 semi")
    return [Mark("head.line", (LEFT, 37), "text s18 semi", sentence), *badge_marks(badge, live, RIGHT)]
