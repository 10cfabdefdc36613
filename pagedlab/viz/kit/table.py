"""Rows of a table: one text under each column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pagedlab.viz.kit.marks import Mark


def row(
    id: str,
    y: float,
    columns: Mapping[str, float],
    values: Sequence[object],
    cls: str = "mono s11 end",
    special: Mapping[str, str] | None = None,
) -> Iterator[Mark]:
    """``columns``: name → x; a cell's id is ``id.name``. ``cls``: how cells are set; ``special``: of single columns."""
    for (name, x), value in zip(columns.items(), values, strict=True):
        yield Mark(f"{id}.{name}", (x, y), f"text {(special or {}).get(name, cls)}", str(value))
