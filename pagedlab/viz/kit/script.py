"""The front end as one module: anywidget takes one text, and a saved page fetches nothing."""

from __future__ import annotations

import re
from functools import cache

from pagedlab.viz.kit.style import STATIC

_IMPORT = re.compile(r'^import (?:\{[^}]*\}|(\w+)) from "\./([\w.]+)";\n', flags=re.M)


@cache
def script(entry: str) -> str:
    """The module ``static/entry`` behind all that it imports, each once. Names are unique among these files, so nothing
    is renamed; what is imported whole is a file's default."""
    parts: dict[str, str] = {}

    def take(name: str, default: str = "") -> None:
        if name in parts:
            return
        text = (STATIC / name).read_text(encoding="utf-8")
        for whole, other in _IMPORT.findall(text):
            take(other, whole)
        text = _IMPORT.sub("", text)
        if default:
            text = text.replace("export default", f"const {default} =")
        parts[name] = re.sub(r"^export (?!default)", "", text, flags=re.M)

    take(entry)
    return "\n".join(parts.values())
