"""The block tables of a model whose layers look back at different numbers of tokens: a column for each group of layers,
side by side. Cards of those with a window are dashed, here and in the pool."""

from __future__ import annotations

from collections.abc import Iterator

from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.scene import Scene
from pagedlab.viz.kit.text import measure, width
from pagedlab.viz.memory.places import TABLE, TOP
from pagedlab.viz.memory.rows import Rows

MOST, GAP = 3, 6.0  # columns, and pixels between them


def shown_groups(scene: Scene) -> list[int]:
    """As many as there is room for."""
    return list(range(min(MOST, len(scene.state.windows))))


def _columns(scene: Scene) -> Iterator[tuple[int, float, float]]:
    """Group, x and width of its column."""
    groups = shown_groups(scene)
    w = (TABLE[1] - GAP * (len(groups) - 1)) / len(groups)
    for group in groups:
        yield group, TABLE[0] + group * (w + GAP), w


def reach(window: int | None) -> str:
    """How far back the layers of a group look."""
    return "all tokens" if window is None else f"last {window}"


def group_heads(scene: Scene) -> Iterator[Mark]:
    for group, x, w in _columns(scene):
        window = scene.state.windows[group]
        ways = (reach(window), "all" if window is None else str(window))
        text = next((way for way in ways if measure(way, "s9") <= w), ways[-1])
        tip = f"Block table of the layers that look back at {reach(window)}"
        yield Mark(f"title.group.{group}", (x + w / 2, TOP - 5), "text s9 soft mid", text, tip=tip)


def group_tables(scene: Scene, rows: Rows) -> Iterator[Mark]:
    hue = scene.hue(scene.selected) if scene.selected is not None else ""
    for group, x, w in _columns(scene):
        table, windowed = scene.tables[group], " windowed" if scene.state.windows[group] else ""
        for logical, (y, h) in rows.place.items():
            if logical >= len(table):
                continue
            id, block_id = f"table.{group}.{logical}", table[logical]
            middle = y + h / 2 + 4.5
            if block_id == 0:
                tip = f"Logical block {logical} has fallen out of the window: the null block stands in its place"
                yield Mark(id, (x, y, w, h), f"card null{windowed}", tip=tip)
                yield Mark(f"{id}.null", (x + w / 2, middle - 1), "text s9 soft mid", "null")
                continue
            count = scene.state.ref_cnt[block_id]
            tip = f"Logical block {logical} is physical block {block_id} in these layers, ref_cnt {count}"
            yield Mark(id, (x, y, w, h), f"card{windowed}", tip=tip)
            number = f"#{block_id}"
            size, font = ("s12", 12) if width(number, 12, mono=True) <= w - 8 else ("s9", 9)
            chip_w = width(number, font, mono=True) + 6
            chip = (x + (w - chip_w) / 2, middle - font * 0.73 - 2.5, chip_w, font * 0.73 + 5)
            yield Mark(f"{id}.chip", chip, f"cell {hue}")  # the same one is in the pool
            yield Mark(f"{id}.p", (x + w / 2, middle), f"text mono bold mid on {size}", number)
