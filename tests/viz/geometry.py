"""Do the words of a picture overlap, are they cut off by a box, do they leave the picture? In a real font, whose ink a
ruler measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pagedlab.viz.kit.marks import Mark

SLACK = 0.7  # pixels that boxes may share: the soft edges of letters
# (classes, text) of each -> where its ink reaches from its point: left, up, right, down
Ruler = Callable[[list[tuple[str, str]]], list[list[float]]]

# Runs in a page that has the style sheet of the labs: the font is the one that the browser takes.
MEASURE = """(texts) => {
  const svg = document.querySelector(".pagedlab svg"), canvas = document.createElement("canvas").getContext("2d");
  const looks = new Map();
  return texts.map(([cls, text]) => {
    if (!looks.has(cls)) {
      const element = document.createElementNS("http://www.w3.org/2000/svg", "text");
      element.setAttribute("class", cls);
      svg.append(element);
      const { fontWeight, fontSize, fontFamily, textAnchor } = getComputedStyle(element);
      looks.set(cls, { font: `${fontWeight} ${fontSize} ${fontFamily}`,
                       align: { start: "left", middle: "center", end: "right" }[textAnchor] });
    }
    canvas.font = looks.get(cls).font;
    canvas.textAlign = looks.get(cls).align;
    const ink = canvas.measureText(text);
    return [-ink.actualBoundingBoxLeft, -ink.actualBoundingBoxAscent,
            ink.actualBoundingBoxRight, ink.actualBoundingBoxDescent];
  });
}"""


class Pictures:
    """Pictures to be looked at together, so that each text is measured once."""

    def __init__(self) -> None:
        self._pictures: dict[tuple, str] = {}  # what is drawn -> where

    def add(self, lab: Any, where: str, view: Any = None) -> None:
        """The picture at the lab's cursor, as it is on paper. ``view``: where it was made already."""
        drawn = lab.static_marks() if view is None else lab._still(view)
        marks = tuple(m for m in drawn if m.cls.startswith(("text", "card")))
        self._pictures.setdefault((lab.SIZE, marks), f"{where}, step {lab.position}, {lab.selected}")

    def __len__(self) -> int:
        return len(self._pictures)

    def faults(self, ruler: Ruler) -> list[str]:
        """One line for each, the first in each place."""
        texts = sorted({(m.cls, m.text) for _, marks in self._pictures for m in marks if m.cls.startswith("text")})
        ink = dict(zip(texts, ruler(texts), strict=True))
        found: dict[tuple, str] = {}
        for (size, marks), where in self._pictures.items():
            for kind, *ids in _faults(size, marks, ink):
                found.setdefault((where.split(",")[0], kind, *ids), f"{where}: {' '.join([ids[0], kind, *ids[1:]])}")
        return list(found.values())


def _faults(size: tuple[float, float], marks: Iterable[Mark], ink: dict) -> Iterable[tuple[str, ...]]:
    texts = [m for m in marks if m.cls.startswith("text") and m.text.strip()]
    boxes = np.array([[*m.place, *m.place] for m in texts]) + np.array([ink[m.cls, m.text] for m in texts])
    left, top, right, bottom = boxes.T
    for i in np.flatnonzero((left < 0) | (top < 0) | (right > size[0]) | (bottom > size[1])):
        yield "leaves the picture", f"{texts[i].id} “{texts[i].text}”"
    for i, j in zip(*np.nonzero(np.triu(_share(boxes, boxes), 1)), strict=True):
        yield "lies over", f"{texts[i].id} “{texts[i].text}”", f"{texts[j].id} “{texts[j].text}”"
    cards = [m for m in marks if m.cls.startswith("card") and "track" not in m.cls.split()]
    if not cards:
        return
    edges = np.array([[x, y, x + w, y + h] for x, y, w, h in (m.place for m in cards)])
    inside = (left[:, None] >= edges[:, 0] - SLACK) & (right[:, None] <= edges[:, 2] + SLACK)
    inside &= (top[:, None] >= edges[:, 1] - SLACK) & (bottom[:, None] <= edges[:, 3] + SLACK)
    for i, j in zip(*np.nonzero(_share(boxes, edges) & ~inside), strict=True):
        yield "crosses the edge of", f"{texts[i].id} “{texts[i].text}”", cards[j].id


def _share(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which of ``a`` share more than ``SLACK`` pixels in both directions with which of ``b``."""
    over = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    return (over > SLACK).all(axis=2)
