"""What a terminal can do: colour, width, taking the screen over."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
CLEAR_SCREEN = "\x1b[H\x1b[2J"


def is_terminal(stream: TextIO) -> bool:
    """Is there a person on the other side, at a terminal that can do more than print?"""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def use_colour(stream: TextIO) -> bool:
    """Colour goes to terminals only, and never against the wish of NO_COLOR (no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """``text`` in one of :data:`CODES`, where ``stream`` (None: standard output) takes colour."""
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if use_colour(stream or sys.stdout) else text


def width(most: int = 120) -> int:
    """Columns of the terminal (COLUMNS where that is set, 80 where nobody knows), at most ``most``."""
    return min(shutil.get_terminal_size().columns, most)
