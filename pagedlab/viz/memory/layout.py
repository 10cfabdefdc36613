"""The memory map: what a request sees, its block table, and the pool of physical blocks.

``marks(scene)`` is a pure function: memory at one moment, the events of the step that led there, and who is selected,
to a list of marks. All of the layout is in Python, here and in the modules for its parts; the front end only draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pagedlab.viz.kit import labels
from pagedlab.viz.kit.areas import Area
from pagedlab.viz.kit.badge import badge_marks, badge_text, badge_width, memory_title
from pagedlab.viz.kit.chips import as_many_as_fit, chip
from pagedlab.viz.kit.cpu_pool import CPU_ROOM, cpu_marks
from pagedlab.viz.kit.flow import Flow
from pagedlab.viz.kit.grid import Grid, pool_grid
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.pool import pool_marks
from pagedlab.viz.kit.scene import Scene
from pagedlab.viz.kit.text import fitted, measure, wrapped
from pagedlab.viz.memory.groups import group_heads, group_tables, shown_groups
from pagedlab.viz.memory.places import BOTTOM, LEFT, POOL, RIGHT, SEEN, TABLE, TOP
from pagedlab.viz.memory.rows import Rows, place_rows, seen_marks, table_marks, waiting_marks
from pagedlab.viz.memory.words import headline, scale, story

AREAS = (
    Area((0, 0, 960, 50)),
    Area((0, 50, 386, 250), "whole"),
    Area((386, 50, 156, 250)),
    Area((542, 50, 418, 250)),
    Area((0, 300, 960, 66)),
    Area((0, 366, 960, 16)),
    Area((0, 382, 960, 128), "chart", (60, RIGHT)),
)


def marks(scene: Scene) -> list[Mark]:
    """The whole picture but the strip of time."""
    rows = place_rows(scene)
    room = BOTTOM - TOP - (CPU_ROOM if scene.state.cpu.num_blocks else 0)
    grid = pool_grid(scene.state.num_blocks, (POOL[0], TOP, POOL[1], room))
    if grid.tier == "detail":  # the arrow runs between the rows and must not look as if it touched a block
        grid = replace(grid, height=grid.height - 2, row_gap=grid.gap + 2)
    return [
        *_header(scene),
        *_titles(scene, grid),
        *seen_marks(scene, rows),
        *waiting_marks(scene, rows),
        *(group_tables(scene, rows) if scene.has_groups else table_marks(scene, rows)),
        *pool_marks(scene, grid),
        *cpu_marks(scene, (POOL[0], BOTTOM - CPU_ROOM)),
        *_arrow(scene, rows, grid),
        *_words(scene),
    ]


def _header(scene: Scene) -> Iterator[Mark]:
    line = Flow(LEFT, 37)
    if scene.selected is not None:
        name, hue = scene.names[scene.selected], scene.hue(scene.selected)
        w = max(22.0, measure(name, "s13 bold") + 12)
        line.sign("head.disc", (w, 22), f"card disc {hue}", up=17, gap=10)
        yield Mark("head.name", (LEFT + w / 2, 36), "text s13 bold mid on", name)
    yield from line.text("head.line", headline(scene), "s18 semi")
    yield Mark("step", (RIGHT, 377), "text s12 soft end", f"step {scene.position}")

    text = badge_text(scene.header, scene.live)
    if scene.state.edited:
        text += " · edited by you"
    if "branched_at" in scene.header:
        text += f" · branched at step {scene.header['branched_at']}"
    text = fitted(text, 300, "soft")  # room for a recorded vLLM with its date
    yield from badge_marks(text, scene.live, RIGHT, cls="alarm" if scene.state.edited else "soft")
    yield from _chips(scene, line.x, RIGHT - badge_width(text) - 16)


def _chips(scene: Scene, left: float, right: float) -> Iterator[Mark]:
    """Who there is, to choose from: as many as fit, from the right; those that run first, then those that wait."""
    state = scene.state
    alive = [*state.running, *state.swapped, *state.waiting]
    if scene.selected is not None and scene.selected not in alive:
        alive.insert(0, scene.selected)
    widths = {r: max(38.0, measure(scene.names[r], "s12 bold") + 18) for r in alive}
    order = sorted(alive, key=lambda r: r != scene.selected)
    shown = as_many_as_fit([(r, widths[r]) for r in order], right - left)
    x = right - sum(widths[r] + 8 for r in shown) + 8
    mine = scene.selected if scene.selected in (*state.running, *state.swapped, *state.waiting) else None
    family = [r for r in alive if mine is not None and _root(scene, r) == _root(scene, mine)]
    label = f"{labels.number(len(family))} answers to one prompt"
    if len(family) == len(alive) == len(shown) > 1 and x - 10 - left >= measure(label, "s10"):
        yield Mark("chips.family", (x - 10, 36), "text s10 soft end", label)
    if len(shown) < len(alive):
        yield Mark("chips.more", (x - 8, 36), "text s11 soft end", f"+{len(alive) - len(shown)}")
    order = list(scene.names)
    for request_id in sorted(shown, key=order.index):
        w, tip = widths[request_id], f"Request {labels.printable(request_id)}, {state.requests[request_id].status}"
        name, chosen = scene.names[request_id], request_id == scene.selected
        yield from chip(request_id, (x, 21, w, 22), name, chosen, scene.hue(request_id), tip)
        x += w + 8


def _root(scene: Scene, request_id: str) -> str:
    """The name of the prompt that a request is an answer to."""
    return (scene.state.requests[request_id].root or request_id).removesuffix("/0")


def _titles(scene: Scene, grid: Grid) -> Iterator[Mark]:
    who = scene.names.get(scene.selected, "A REQUEST")
    seen = Flow(LEFT, 66).text("title.seen", f"WHAT {who} SEES", "s11 bold soft")
    yield from seen.text("title.seen.2", "logical blocks", "s11 soft", gap=0)
    if scene.table:
        yield from _key(scene, seen.x)
    yield Mark(
        "title.table",
        (TABLE[0], 66),
        "text s11 bold soft",
        "SLOTS" if scene.state.era == "contiguous" else "BLOCK TABLES" if scene.has_groups else "BLOCK TABLE",
    )
    if scene.has_groups:
        yield from group_heads(scene)
    second = "physical blocks" if grid.per_cell == 1 else f"each cell {grid.per_cell} neighbouring blocks"
    if scene.has_groups and None in scene.state.windows and grid.per_cell == 1:
        second = "dashed: layers with a window"
    if scene.num_ranks > 1 and grid.per_cell == 1:
        second = f"a slice on each of {scene.num_ranks} ranks"
    pool = Flow(POOL[0], 66).text("title.pool", memory_title(scene.header), "s11 bold soft")
    yield from pool.text("title.pool.2", second, "s11 soft", gap=8)
    if grid.tier in ("detail", "medium"):
        yield from _pool_key(scene, pool.x, grid.tier == "detail")


def _pool_key(scene: Scene, left: float, detail: bool) -> Iterator[Mark]:
    """What the marks in the pool mean, right-aligned, as much as there is room for: the copies of this step; the two
    strengths of colour; the sign of a block that is full and can be shared."""
    if any(copy in scene.owners for copy in scene.copies):
        sources = sorted({source for copy, source in scene.copies.items() if copy in scene.owners})
        phrases = ("copied in this step",) if len(sources) > 1 else (f"copy of #{sources[0]}, just made",)
        word = fitted((*phrases, "copy"), RIGHT - left - 22, "s10")
        x = RIGHT - measure(word, "s10")
        yield Mark("key.copied.over", (x - 22, 57.2, 16, 9.6), "over copied sharp")
        yield Mark("key.copied", (x, 66), "text s10 soft", word)
        return
    signs = []  # class of a swatch, word
    held = dict.fromkeys(r for owners in scene.owners.values() for r in owners if r != scene.selected)
    other = next(iter(held), None) if scene.table and not scene.swapped else None
    if other is not None:
        signs = [("", scene.names[scene.selected], scene.hue(scene.selected)), ("dim ", "others", scene.hue(other))]
    room = RIGHT - left
    taken = sum(13 + measure(word, "s10") + 6 for _, word, _ in signs)
    says = ""
    if scene.state.cached and detail:
        ways = (
            "◆ full: its hash lets others reuse it",
            "◆ full: others can reuse it",
            "◆ full, reusable",
            "◆ reusable",
        )
        says = next((w for w in ways if measure(w, "s10") <= room - taken - 2), "")
        if not says:
            signs, taken = [], 0
            says = fitted(ways, room, "s10")
        yield Mark("title.cached", (RIGHT, 66), "text s10 soft end", says)
    x = RIGHT - (measure(says, "s10") + 4 if says else -6) - taken
    line = Flow(x, 66)
    for strength, word, hue in signs if x >= left - 10 else ():
        id = f"key.{word if strength else 'mine'}"
        line.sign(f"{id}.cell", (10, 9), f"cell sharp {strength}{hue}", up=8.5, gap=3).text(id, word, "s10 soft", gap=6)
    yield from line


def _key(scene: Scene, left: float) -> Iterator[Mark]:
    """What an outline (written in this step) and hatching mean; in fewer words where the request's name is long."""
    hue, right = scene.hue(scene.selected), SEEN[0] + SEEN[1]
    words = ("new", "not written")
    if right - left < sum(measure(word, "s10") + 26 for word in words):
        words = ("new", "empty")
    x = right - sum(measure(word, "s10") for word in words) - 14 * 2 - 10
    line, size = Flow(x, 66), (10, 9)
    line.sign("key.new.cell", size, f"cell sharp {hue}", 8.5, gap=-10)
    line.sign("key.new.over", size, "over sharp", 8.5, gap=4)
    line.text("key.new", words[0], "s10 soft", gap=10)
    line.sign("key.hatched.cell", size, f"cell sharp hatched {hue}", 8.5, gap=4)
    yield from line.text("key.hatched", words[1], "s10 soft")


def _arrow(scene: Scene, rows: Rows, grid: Grid) -> Iterator[Mark]:
    """From the table's row that was written in this step (else its last) to its block."""
    if not rows.place or scene.swapped:
        return
    table = scene.tables[shown_groups(scene)[-1]] if scene.has_groups else scene.table  # the one beside the pool
    written = {b for b, _ in scene.state.written}
    touched = [i for i in rows.place if table[i] in written]
    logical = max(touched or rows.place)
    block_id = table[logical]
    y, h = rows.place[logical]
    x0, y0 = TABLE[0] + TABLE[1], y + h / 2
    x, top, w, _ = grid.place(block_id // grid.per_cell)
    hue = scene.hue(scene.selected)
    # Down the gutter and along the gap above the block, so that it crosses no other one.
    gutter, tip_x = POOL[0] - 18, x + w / 2
    lane = top - ((grid.gap if grid.row_gap is None else grid.row_gap) / 2 if top > TOP else 8)
    r = min(8.0, abs(lane - y0) / 2) if abs(lane - y0) >= 1 else 0.0
    down = 1 if lane > y0 else -1
    path = (
        f"M{x0:g} {y0:g}H{gutter - r:g}Q{gutter:g} {y0:g} {gutter:g} {y0 + down * r:g}V{lane - down * r:g}"
        f"Q{gutter:g} {lane:g} {gutter + r:g} {lane:g}H{tip_x:g}V{top:g}"
    )
    size = {"detail": 7, "medium": 5, "small": 4}[grid.tier]
    head = f"M{tip_x - size:g} {top - size:g}H{tip_x + size:g}L{tip_x:g} {top + size - 2:g}Z"
    if grid.tier == "small":
        hue = f"fine {hue}"
    yield Mark("arrow", (), f"path {hue}", path)
    yield Mark("arrow.head", (), f"path head {hue}", head)


def _words(scene: Scene) -> Iterator[Mark]:
    """What the step did: four lines at most, what the selected request did first. Where the others did too much for
    that, their blocks are left to the pool."""
    state, room = scene.state, RIGHT - LEFT
    for shorter in (0, 1, 2, 3):
        mine, others = story(scene, shorter)
        first = wrapped(mine, room, "s13", 3)
        rest = wrapped(others, room, "s12", 4 - len(first)) if others else []
        if " ".join(rest) == others and " ".join(first) == mine:
            break
    lines = [("", "13", text, mine) for text in first] + [(".others", "12 soft", text, others) for text in rest]
    y, pitch = {3: (312, 16), 4: (307, 14.5)}.get(len(lines), (318, 18))
    for i, (whose, cls, text, tip) in enumerate(lines):
        line = i - len(first) if whose else i
        id = f"story{whose}.{line + 1}" if line else f"story{whose}"
        yield Mark(id, (LEFT, y + i * pitch), f"text s{cls}", text, tip=tip)
    y = 357 if len(lines) < 3 else 361 if len(lines) == 3 else 364
    right = fitted(scale(scene.header, state.block_size), room / 2 + 80, "s11")
    left = room - measure(right, "s11") - 16
    text = next((t for t in _free(scene) if measure(t, "s11 mono") <= left), "")
    yield Mark("free", (LEFT, y), "text mono s11 soft", text or fitted(_free(scene)[-1], left, "s11 mono"))
    if right:
        yield Mark("scale", (RIGHT, y), "text s11 soft end", right)


def _free(scene: Scene) -> list[str]:
    """The free blocks in the order in which they will be taken, and how many there are; in fewer and fewer words."""
    free, usable = scene.state.free, scene.num_usable
    if not free:
        return [f"No block is free: all {usable} are in use"]
    title = "Free stack, top first" if scene.state.era == "paper" else "Next free"
    besides = ", without #0" if scene.state.has_null_block else ""
    ways = []
    for most, more in ((6, besides), (5, besides), (4, besides), (3, besides), (3, ""), (2, "")):
        order = " → ".join(f"#{b}" for b in free[:most]) + (" → …" if len(free) > most else "")
        ways.append(f"{title}: {order} ({len(free)} of {usable} free{more})")
    return ways
