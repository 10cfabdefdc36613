"""The memory map: what a request sees, its block table, and the pool of physical blocks.

``marks(scene)`` is a pure function: memory at one moment, the events of the step that led there, and who is selected,
to a list of marks. All of the layout is in Python, here and in the modules for its parts; the front end only draws.
"""

from __future__ import annotations

from collections.abc import Iterator

from pagedlab.trace.events import BlockCopied
from pagedlab.viz import labels
from pagedlab.viz.labels import fit, width
from pagedlab.viz.marks import Mark
from pagedlab.viz.memory_cpu import CPU_ROOM, cpu_marks
from pagedlab.viz.memory_pool import pool_marks
from pagedlab.viz.memory_rows import Rows, place_rows, seen_marks, table_marks, waiting_marks
from pagedlab.viz.places import BOTTOM, LEFT, POOL, RIGHT, SEEN, TABLE, TOP
from pagedlab.viz.pool_grid import Grid, pool_grid
from pagedlab.viz.scene import Scene, badge, headline, scale, step_text, story


def marks(scene: Scene) -> list[Mark]:
    """The whole picture but the strip of time."""
    rows = place_rows(scene)
    room = BOTTOM - TOP - (CPU_ROOM if scene.state.cpu.num_blocks else 0)
    grid = pool_grid(scene.state.num_blocks, (POOL[0], TOP, POOL[1], room))
    return [
        *_header(scene),
        *_titles(scene, grid),
        *seen_marks(scene, rows),
        *waiting_marks(scene, rows),
        *table_marks(scene, rows),
        *pool_marks(scene, grid),
        *cpu_marks(scene, BOTTOM - CPU_ROOM),
        *_arrow(scene, rows, grid),
        *_copies(scene, grid),
        *_words(scene),
    ]


def _header(scene: Scene) -> Iterator[Mark]:
    x = LEFT
    if scene.selected is not None:
        name, hue = scene.names[scene.selected], scene.hue(scene.selected)
        w = max(22.0, width(name, 13, bold=True) + 12)
        yield Mark("head.disc", (x, 20, w, 22), f"card disc {hue}")
        yield Mark("head.name", (x + w / 2, 36), "text s13 bold mid on", name)
        x += w + 10
    text = headline(scene)
    yield Mark("head.line", (x, 37), "text s18 semi", text)
    x += width(text, 18, bold=True) + 12
    step = step_text(scene)
    yield Mark("step", (RIGHT, 377), f"text s12 {'bold' if 'past' in step else 'soft'} end", step)

    text = badge(scene.header, scene.live)
    if scene.state.edited:
        text += " · edited by you"
    if "branched_at" in scene.header:
        text += f" · branched at step {scene.header['branched_at']}"
    text = fit(text, 250, 11.5)
    w = width(text, 11.5) + 30
    yield Mark("badge", (RIGHT - w, 21, w, 22), "card badge", tip="What produced this picture")
    yield Mark("badge.light", (RIGHT - w + 10, 28, 8, 8), "cell light" if scene.live else "cell still")
    yield Mark("badge.text", (RIGHT - w + 24, 36), "text soft" if not scene.state.edited else "text alarm", text)
    yield from _chips(scene, x, RIGHT - w - 16)


def _chips(scene: Scene, left: float, right: float) -> Iterator[Mark]:
    """Who there is, to choose from: as many as fit, from the right; those that run first, then those that wait."""
    state = scene.state
    alive = [*state.running, *state.swapped, *state.waiting]
    if scene.selected is not None and scene.selected not in alive:
        alive.insert(0, scene.selected)
    widths = {r: max(38.0, width(scene.names[r], 12, bold=True) + 18) for r in alive}
    shown, used = [], 0.0
    for request_id in sorted(alive, key=lambda r: r != scene.selected):
        if used + widths[request_id] + 8 > right - left - (34 if len(shown) + 1 < len(alive) else 0):
            break
        shown.append(request_id)
        used += widths[request_id] + 8
    x = right - used + 8
    if len(shown) < len(alive):
        yield Mark("chips.more", (x - 8, 36), "text s11 soft end", f"+{len(alive) - len(shown)}")
    order = list(scene.names)
    for request_id in sorted(shown, key=order.index):
        w, chosen, hue = widths[request_id], request_id == scene.selected, scene.hue(request_id)
        status = state.requests[request_id].status
        yield Mark(
            f"chip.{request_id}",
            (x, 21, w, 22),
            f"card chip {'chosen ' if chosen else ''}{hue}",
            tip=f"Request {labels.printable(request_id)}, {status}",
        )
        yield Mark(
            f"chip-name.{request_id}",
            (x + w / 2, 36),
            "text s12 bold mid " + ("on" if chosen else f"hue {hue}"),
            scene.names[request_id],
        )
        x += w + 8


def _titles(scene: Scene, grid: Grid) -> Iterator[Mark]:
    who = scene.names.get(scene.selected, "A REQUEST")
    first = f"WHAT {who} SEES"
    yield Mark("title.seen", (LEFT, 66), "text s11 bold soft", first)
    x = LEFT + width(first, 11, bold=True) + 12
    yield Mark("title.seen.2", (x, 66), "text s11 soft", "logical blocks")
    if scene.table:
        yield from _key(scene, x + width("logical blocks", 11))
    yield Mark(
        "title.table",
        (TABLE[0], 66),
        "text s11 bold soft",
        "SLOTS" if scene.state.era == "contiguous" else "BLOCK TABLE",
    )
    device = str(scene.header.get("device") or "CPU")
    first = "MEMORY POOL" if device.upper() == "CPU" else "GPU MEMORY"
    yield Mark("title.pool", (POOL[0], 66), "text s11 bold soft", first)
    second = "physical blocks" if grid.per_cell == 1 else f"each cell {grid.per_cell} neighbouring blocks"
    yield Mark("title.pool.2", (POOL[0] + width(first, 11, bold=True) + 12, 66), "text s11 soft", second)
    if scene.state.cached and grid.tier == "detail":
        yield Mark("title.cached", (RIGHT, 66), "text s10 soft end", "◆ cached: can be found again")


def _key(scene: Scene, left: float) -> Iterator[Mark]:
    """What an outline (written in this step) and hatching mean, where there is room for it."""
    hue, x = scene.hue(scene.selected), SEEN[0] + SEEN[1]
    for id, word, classes in (("hatched", "not written", [f"cell sharp hatched {hue}"]),
                              ("new", "new", [f"cell sharp {hue}", "over sharp"])):  # fmt: skip
        x -= width(word, 10.5)
        if x - 16 < left + 8:
            return
        yield Mark(f"key.{id}", (x, 66), "text s10 soft", word)
        x -= 14
        for cls in classes:
            yield Mark(f"key.{id}.{cls.split()[0]}", (x, 57.5, 10, 9), cls)
        x -= 12


def _arrow(scene: Scene, rows: Rows, grid: Grid) -> Iterator[Mark]:
    """From the table's row that was written in this step (else its last) to its block."""
    if not rows.place or scene.swapped:
        return
    written = {b for b, _ in scene.state.written}
    touched = [i for i in rows.place if scene.table[i] in written]
    logical = max(touched or rows.place)
    block_id = scene.table[logical]
    y, h = rows.place[logical]
    x0, y0 = TABLE[0] + TABLE[1], y + h / 2
    x, top, w, _ = grid.place(block_id // grid.per_cell)
    hue = scene.hue(scene.selected)
    # Down the gutter and along the gap above the block, so that it crosses no other one.
    gutter, tip_x = POOL[0] - 18, x + w / 2
    lane = top - (grid.gap / 2 if top > TOP else 8)
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


def _copies(scene: Scene, grid: Grid) -> Iterator[Mark]:
    """Copy-on-write as it happened in this step: from the shared block to the selected request's own copy."""
    if grid.tier == "small":
        return
    for e in scene.events:
        if not isinstance(e, BlockCopied) or e.request_id != scene.selected:
            continue
        if e.to_block_id not in scene.table:
            continue  # it has lost it again in the same step
        hue = scene.hue(e.request_id)
        x0, y0, w, h = grid.place(e.from_block_id)
        x1, y1, _, _ = grid.place(e.to_block_id)
        yield Mark("copied.from", (x0 - 2, y0 - 2, w + 4, h + 4), "over copied")
        # From side to side where they stand in one row, else from edge to edge.
        if y0 == y1:
            right = x1 > x0
            start, end = (x0 + w if right else x0, y0 + h * 0.7), (x1 - 2 if right else x1 + w + 2, y1 + h * 0.7)
            tip, middle = (-7 if right else 7, 0), (start[1], end[1])
        else:
            down = y1 > y0
            start, end = (x0 + w * 0.7, y0 + h if down else y0), (x1 + w * 0.7, y1 - 2 if down else y1 + h + 2)
            tip, middle = (0, -7 if down else 7), ((start[1] + end[1]) / 2,) * 2
        path = f"M{start[0]:.1f} {start[1]:.1f}C{start[0]:.1f} {middle[0]:.1f} {end[0]:.1f} {middle[1]:.1f} "
        yield Mark("copied", (), f"path copied {hue}", f"{path}{end[0]:.1f} {end[1]:.1f}")
        side = (4, 0) if tip[0] == 0 else (0, 4)
        back = (end[0] + tip[0], end[1] + tip[1])
        yield Mark(
            "copied.head",
            (),
            f"path head {hue}",
            f"M{back[0] - side[0]:.1f} {back[1] - side[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"
            f"L{back[0] + side[0]:.1f} {back[1] + side[1]:.1f}Z",
        )
        return


def _words(scene: Scene) -> Iterator[Mark]:
    state = scene.state
    mine, others = story(scene)
    room = RIGHT - LEFT
    first, rest = labels.broken(mine, room, 13)
    yield Mark("story", (LEFT, 318), "text s13", first, tip=mine)
    if rest:  # what the selected request did comes first, and as much of the others as there is room for
        both = f"{rest} {others}".rstrip()
        yield Mark("story.rest", (LEFT, 336), "text s13", fit(both, room, 13), tip=both)
    elif others:
        yield Mark("story.others", (LEFT, 336), "text s12 soft", fit(others, room, 12), tip=others)
    free = len(state.free)
    if free:
        order = " → ".join(f"#{b}" for b in state.free[:6]) + (" → …" if free > 6 else "")
        text = f"Next free: {order}   ({free} of {scene.num_usable} free)"
    else:
        text = f"No block is free: all {scene.num_usable} are in use"
    right = fit(scale(scene.header, state.block_size), room / 2 + 20, 11)
    yield Mark("free", (LEFT, 357), "text mono s11 soft", fit(text, room - width(right, 11) - 16, 11, mono=True))
    if right:
        yield Mark("scale", (RIGHT, 357), "text s11 soft end", right)
