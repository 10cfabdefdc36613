"""What a terminal can do: colour, width, taking the screen over. And what of a stranger's text must not reach it."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
CLEAR_SCREEN = "\x1b[H\x1b[2J"
TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


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


Item = TypeVar("Item")


class Progress:
    """One line on standard error that says how far the work is, where that is a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        self._shown, self._text = is_terminal(sys.stderr), ""

    def of(self, what: str, items: Iterable[Item], num_items: int) -> Iterator[Item]:
        """Goes through ``items``, and tells of which of them, of ``num_items``, it is the turn."""
        for number, item in enumerate(items, start=1):
            self.say(f"{what} {number:,} of {num_items:,}")
            yield item

    def say(self, text: str) -> None:
        """In place of what was said before; "" takes it away."""
        text = printable(text)
        if self._shown and text != self._text:
            print(f"\r\x1b[K{text[: width() - 1]}", end="", file=sys.stderr, flush=True)
            self._text = text


def printable(text: str) -> str:
    """``text`` on one line, with "�" for what would steer a terminal, turns the line around, or cannot be encoded."""
    return "".join(" " if char in "\t\n\r" else "�" if _steers(char) else char for char in text)


def printable_lines(text: str) -> str:
    """The same, line by line."""
    return "\n".join(map(printable, text.split("\n")))


def _steers(char: str) -> bool:
    kind, no_character = unicodedata.category(char), ord(char) & 0xFFFE == 0xFFFE
    return kind in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(char) in TURNS or no_character
