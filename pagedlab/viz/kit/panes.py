"""What can stand in a pane under the picture: plain dicts, which the front end turns into a few HTML elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Part = dict[str, Any]


def text(words: str, alarm: bool = False) -> Part:
    return {"kind": "text", "text": words, "alarm": alarm}


def code(title: str, first: int, lines: Sequence[str], marked: Sequence[int]) -> Part:
    """Lines of a file, the first of which is number ``first``; those whose numbers are in ``marked`` stand out."""
    return {"kind": "code", "title": title, "first": first, "lines": list(lines), "marked": sorted(marked)}


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Part:
    return {"kind": "table", "rows": [[str(cell) for cell in row] for row in [head, *rows]]}


def buttons(*buttons: tuple[str, str, bool]) -> Part:
    """Each: the name that ``act`` gets, the words on it, is it the chosen one?"""
    return {"kind": "buttons", "buttons": [list(button) for button in buttons]}


def form(name: str, submit: str, *fields: Part) -> Part:
    """``act`` gets ``name`` and each field's text by the field's name."""
    return {"kind": "form", "name": name, "submit": submit, "fields": list(fields)}


def field(name: str, label: str, value: Any = "", options: Sequence[Any] | None = None, wide: bool = False) -> Part:
    """An input, or a choice among ``options``."""
    chosen = None if options is None else [str(option) for option in options]
    return {"name": name, "label": label, "value": str(value), "options": chosen, "wide": wide}
