"""Reads the style sheet of the front end, so that the static picture and the tests use the same colours as the live
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

NUM_HUES = 8  # --c0 to --c7 in the style sheet
STATIC = Path(__file__).parents[1] / "static"


@cache
def _sheet() -> tuple[dict[str, str], list[tuple[frozenset[str], dict[str, str]]]]:
    """The palette (`--name: value` of the rule ".pagedlab") and the rules for marks (".pagedlab .a.b { … }"), in order.
    """
    text = re.sub(r"/\*.*?\*/", "", (STATIC / "lab.css").read_text(encoding="utf-8"), flags=re.S)
    palette, rules = {}, []
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", text):
        declarations = dict(re.findall(r"([\w-]+)\s*:\s*([^;]+?)\s*(?:;|$)", body))
        for selector in selectors.split(","):
            if selector.strip() == ".pagedlab":
                palette |= {k: v for k, v in declarations.items() if k.startswith("--")}
            if match := re.fullmatch(r"\.pagedlab ((?:\.[\w-]+)+)", selector.strip()):
                rules.append((frozenset(match[1].strip(".").split(".")), declarations))
    return palette, rules


@cache
def palette(theme: str) -> dict[str, str]:
    """Colours by name (without the dashes), for theme "light" or "dark"."""
    return {name.removeprefix("--"): _themed(value, theme) for name, value in _sheet()[0].items()}


def middle_hue(i: int) -> str:
    """The colour halfway between hue ``i`` on a light and on a dark page."""
    both = [bytes.fromhex(palette(theme)[f"c{i}"].removeprefix("#")) for theme in ("light", "dark")]
    return "#" + "".join(f"{(a + b) // 2:02x}" for a, b in zip(*both, strict=True))


def _themed(value: str, theme: str) -> str:
    return re.sub(r"light-dark\(\s*([^,()]+?)\s*,\s*([^,()]+?)\s*\)", r"\1" if theme == "light" else r"\2", value)


def resolve(classes: Iterable[str], theme: str) -> dict[str, str]:
    """The properties of a mark with these classes, every var() replaced by its value."""
    classes = set(classes)
    variables = {f"--{name}": value for name, value in palette(theme).items()}
    properties: dict[str, str] = {}
    for needed, declarations in _sheet()[1]:
        if needed <= classes:
            for name, value in declarations.items():
                (variables if name.startswith("--") else properties)[name] = _themed(value, theme)
    return {name: _substitute(value, variables) for name, value in properties.items()}


def _substitute(value: str, variables: dict[str, str]) -> str:
    while match := re.search(r"var\((--[\w-]+)\)", value):
        value = value.replace(match[0], variables[match[1]])
    return value
