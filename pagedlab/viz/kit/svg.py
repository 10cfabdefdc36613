"""The static picture: an SVG from the same marks that needs no style sheet, with its own background.

All looks are attributes, because GitHub's view of a notebook takes styles out of an SVG. Marks that look the same stand
in one group, which keeps it small.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.style import palette, resolve

LAYERS = ("card", "cell", "over", "path", "text", "top")
_LIVE_ONLY = {"pointer-events", "cursor", "transition"}


def svg(marks: Iterable[Mark], size: tuple[float, float], title: str, theme: str = "light") -> str:
    """One self-contained SVG document. ``title`` is its name for a screen reader; ``theme`` is "light" or "dark"."""
    width, height = size
    colors = palette(theme)
    groups: dict[str, dict[str, list[str]]] = {layer: {} for layer in LAYERS}
    hatches = set()
    for mark in marks:
        classes = mark.cls.split()
        looks = {name: value for name, value in resolve(classes, theme).items() if name not in _LIVE_ONLY}
        rx = looks.pop("rx", "0")
        if looks.get("fill", "").startswith("url("):
            hue = next(name for name in classes if name[0] == "c" and name[1:].isdigit())
            hatches.add(hue)
            looks["fill"] = f"url(#{theme}-hatch-{hue})"
        attributes = " ".join(f"{name}={quoteattr(value.removesuffix('px'))}" for name, value in looks.items())
        groups[classes[0]].setdefault(attributes, []).append(_element(mark, classes[0], rx.removesuffix("px")))
    drawn = [
        f"<g {attributes}>{''.join(elements)}</g>" for layer in LAYERS for attributes, elements in groups[layer].items()
    ]
    # Width by attribute: in a page that is narrower, the viewBox scales it.
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" direction="ltr" role="img" aria-label={quoteattr(title)}>',
        f"<title>{escape(title)}</title>",
        f"<defs>{''.join(_hatch(hue, colors, theme) for hue in sorted(hatches))}</defs>",
        f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="8" '
        f'fill="{colors["back"]}" stroke="{colors["line"]}"/>',
        *drawn,
        "</svg>",
    ])  # fmt: skip


def _hatch(hue: str, colors: dict[str, str], theme: str) -> str:
    return (
        f'<pattern id="{theme}-hatch-{hue}" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="6" height="6" fill="{colors["back"]}"/>'
        f'<path d="M1 0V6" stroke="{colors[hue]}" stroke-width="2" opacity=".7"/></pattern>'
    )


def _element(mark: Mark, layer: str, rx: str) -> str:
    places = mark.to_json()[1]
    if layer == "path":
        return f"<path d={quoteattr(mark.text)}/>"
    if layer == "text":
        return f'<text x="{places[0]}" y="{places[1]}" xml:space="preserve">{escape(mark.text)}</text>'
    x, y, width, height = places
    rounded = f' rx="{rx}"' if rx != "0" else ""
    end = f"><title>{escape(mark.tip)}</title></rect>" if mark.tip else "/>"
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}"{rounded}{end}'
