"""The areas of a picture: what stays together, and how it is set on a screen too narrow for all of them side by side.

A lab lists its areas in the order in which they stand there, one below the other; ``static/narrow.js`` does the rest.
Where none is listed, the whole picture is one area of kind "flow".
"""

from __future__ import annotations

from typing import NamedTuple

Box = tuple[float, float, float, float]  # x, y, width, height


class Area(NamedTuple):
    """A mark belongs to the first area that it lies in.

    ``kind``: "flow" (blocks and texts one behind the other, in as many lines as it takes), "whole" (one piece, which a
    narrow screen has room for), "chart" (as wide as the screen), "fold" (a long strip, in several lines), "tree"
    (cards and the lines from one to the next: each under the one before it), "table" (each row on lines of its own,
    each value behind the head of its column), "omit" (not shown there). ``plot``: of a chart and a strip, x of its left
    and its right end. ``heads``: of a table, where the heads of its columns stand.
    """

    box: Box
    kind: str = "flow"
    plot: tuple[float, float] | None = None
    heads: tuple[Box, ...] = ()
