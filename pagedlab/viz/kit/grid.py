"""How the physical blocks are laid out: as large as they can be, and in groups where they are too many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

IDEAL = (84.0, 62.0)
MOST_SMALL = 512  # beyond that a cell stands for several blocks
LABEL_ROOM = 30.0


@dataclass(frozen=True)
class Grid:
    """``tier``: "detail" (slots), "medium" (a bar) or "small" (hue and letter). ``per_cell``: blocks in a cell.
    ``label_x``: where the first number of a row stands, or None where each block shows its own.
    """

    tier: str
    columns: int
    rows: int
    count: int
    per_cell: int
    left: float
    top: float
    width: float
    height: float
    gap: float
    label_x: float | None = None
    row_gap: float | None = None  # where it is another than between columns

    def place(self, cell: int) -> tuple[float, float, float, float]:
        """x, y, width, height."""
        row, column = divmod(cell, self.columns)
        return (
            self.left + column * (self.width + self.gap),
            self.top + row * (self.height + (self.gap if self.row_gap is None else self.row_gap)),
            self.width,
            self.height,
        )


@lru_cache(maxsize=64)
def pool_grid(num_blocks: int, box: tuple[float, float, float, float]) -> Grid:
    """Lay ``num_blocks`` out in ``box`` (x, y, width, height)."""
    x, y, w, h = box
    for tier, gap, least in (("detail", 10.0, (52.0, 44.0)), ("medium", 5.0, (30.0, 20.0))):
        grid = _best(tier, num_blocks, 1, box, gap, range(1, num_blocks + 1))
        if grid.width >= least[0] and grid.height >= least[1]:
            return grid
    per_cell = 1
    while math.ceil(num_blocks / per_cell) > (MOST_SMALL if per_cell == 1 else 256):
        per_cell *= 2
    inner = (x + LABEL_ROOM, y, w - LABEL_ROOM, h)
    grid = _best("small", math.ceil(num_blocks / per_cell), per_cell, inner, 2.0, (8, 16, 24, 32))
    return Grid(**{**grid.__dict__, "label_x": grid.left})


def _best(
    tier: str, count: int, per_cell: int, box: tuple[float, float, float, float], gap: float, columns: range | tuple
) -> Grid:
    """The number of columns that gives the largest cells of about the ideal shape."""
    x, y, w, h = box
    best = None
    for c in columns:
        rows = math.ceil(count / c)
        cell_w, cell_h = _even(min(IDEAL[0], (w + gap) / c - gap)), _even(min(IDEAL[1], (h + gap) / rows - gap))
        score = min(cell_w / IDEAL[0], cell_h / IDEAL[1])
        if best is None or score > best[0]:
            best = (score, Grid(tier, c, rows, count, per_cell, x, y, cell_w, cell_h, gap))
    return best[1]


def _even(length: float) -> float:
    """Down to a whole number of fifths: then every cell and its middle lie on tenths of a pixel, and equal cells are
    sent once (see ``marks.diff``).
    """
    return math.floor(length * 5 + 1e-9) / 5
