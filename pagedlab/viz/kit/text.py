"""How wide a text will be, and words that fit into the room there is.

What is measured is named by the classes that the mark will have ("s11 bold"): the style sheet says which size that is.
``width`` and ``fit`` take the font's size in pixels, for what is set in one of several.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from pagedlab.viz.kit.labels import ISOLATED, ISOLATED_END
from pagedlab.viz.kit.style import resolve

NO_CELLS = "\u200d" + ISOLATED + ISOLATED_END


def cells(text: str) -> int:
    """How many columns of a fixed-width font the text takes: 2 for wide characters, 0 for combining ones."""
    return sum(
        0 if unicodedata.combining(c) or c in NO_CELLS else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


@lru_cache(maxsize=1 << 8)
def font(cls: str) -> tuple[float, bool, bool]:
    """Size in pixels, of fixed width?, bold? A text mark with these classes."""
    looks = resolve(("text", *cls.split()), "light")
    return float(looks["font-size"].removesuffix("px")), "Mono" in looks["font-family"], "font-weight" in looks


def measure(text: str, cls: str) -> float:
    """About how many pixels wide a text mark with these classes is."""
    return width(text, *font(cls))


def fitted(text: str | Iterable[str], room: float, cls: str) -> str:
    """The text (of several ways to say it, the first that fits) in ``room`` pixels; cut with "…" where none does."""
    size, mono, bold = font(cls)
    ways = [text] if isinstance(text, str) else list(text)
    whole = (way for way in ways if width(way, size, mono, bold) <= room)
    return next(whole, None) or fit(ways[-1], room, size, mono, bold)


@lru_cache(maxsize=1 << 14)  # the same words are measured at every step
def width(text: str, size: float, mono: bool = False, bold: bool = False) -> float:
    """About how many pixels wide the text is at font ``size``. Reckoned for DejaVu, which is wider than most fonts."""
    if mono:
        return cells(text) * size * 0.602
    return sum(_width_of(c) for c in text) * size * (1.13 if bold else 1.0)


@lru_cache(maxsize=1 << 10)
def _width_of(c: str) -> float:
    """One character of a proportional font, as a share of the font's size."""
    if c in " .,:;|'ijlI!()[]·":
        return 0.34
    if c in 'ftr-“”"/':
        return 0.43
    if c in "mwMW→…✓◆×@%":
        return 0.92
    return cells(c) * (0.7 if c.isupper() or c in "#+" else 0.63 if c.isdigit() else 0.61)


def fit(text: str, room: float, size: float, mono: bool = False, bold: bool = False) -> str:
    """The text, cut at its end with "…" where it is wider than ``room`` pixels; "" where not even that fits."""
    if mono:
        return clip(text, int(room / width("x", size, mono)))
    if width(text, size, bold=bold) <= room:
        return text
    kept, used = 0, width("…", size, bold=bold)
    for c in text:
        used += width(c, size, bold=bold)
        if used > room:
            break
        kept += 1
    return text[:kept] + "…" if kept else ""


def wrapped(text: str, room: float, cls: str, most: int) -> list[str]:
    """The text over at most ``most`` lines of ``room`` pixels, broken between words; the last is cut with "…" where
    that is not enough."""
    lines, text = [], text.replace(" … (", "\u00a0…\u00a0(")  # no line begins or ends with it
    while text and len(lines) < most - 1 and measure(text, cls) > room:
        words = text.split(" ")
        count = len(words)
        while count > 1 and measure(" ".join(words[:count]), cls) > room:
            count -= 1
        lines.append(fitted(" ".join(words[:count]), room, cls))
        text = " ".join(words[count:])
    lines += [fitted(text, room, cls)] if text or not lines else []
    return [line.replace("\u00a0…\u00a0(", " … (") for line in lines]


def as_many(items: list[str], between: str, room: float, cls: str) -> str:
    """The items, or as many of the first as there is room for, and how many there are in all."""
    text, count = between.join(items), len(items)
    while count > 1 and measure(text, cls) > room:
        count -= 1
        text = f"{between.join(items[:count])} … ({len(items)} in all)"
    return text


def clip(text: str, columns: int) -> str:
    """The text in at most ``columns`` columns, cut with "…"."""
    if cells(text) <= columns:
        return text
    if columns < 1:
        return ""
    kept, used = [], 0
    for c in text:
        used += cells(c)
        if used > columns - 1:
            break
        kept.append(c)
    return "".join(kept) + "…"
