"""The memory map's right half: the pool of physical blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from pagedlab.viz.kit import labels
from pagedlab.viz.kit.grid import Grid
from pagedlab.viz.kit.labels import crowd, ordinal
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.scene import Scene
from pagedlab.viz.kit.slots import bar, outlines
from pagedlab.viz.kit.text import fitted, measure

SLICE_GAP, LEAST_SLICE = 1.5, 2.5  # pixels between the slices of a block, and the height of one


def pool_marks(scene: Scene, grid: Grid) -> Iterator[Mark]:
    turn = {block_id: i for i, block_id in enumerate(scene.state.free)}
    if grid.per_cell > 1:
        yield from _coarse(scene, grid)
    else:
        draw = _detail if grid.tier == "detail" else _medium if grid.tier == "medium" else _small
        plain = _plain(scene) if grid.tier == "small" else ()
        for block_id in range(scene.state.num_blocks):
            if block_id in plain:
                yield _free_cell(grid, block_id, scene.num_ranks)
            else:
                yield from draw(scene, grid, block_id, turn.get(block_id))
    if grid.label_x is not None:
        for row in range(grid.rows):
            x, y, _, h = grid.place(row * grid.columns)
            yield Mark(
                f"pool.row{row}",
                (x - 5, y + h / 2 + 3),
                "text mono s8 soft end",
                f"#{row * grid.columns * grid.per_cell}",
            )


def _plain(scene: Scene) -> set[int]:
    """The free blocks of which nothing is known but that they are free: in a large pool, most."""
    return set(scene.state.free[9:]) - scene.owners.keys() - scene.state.cached.keys() - {scene.guess}


@lru_cache(maxsize=1 << 12)
def _free_cell(grid: Grid, block_id: int, num_ranks: int) -> Mark:
    tip = f"Block #{block_id}, free{_on_ranks(num_ranks)}"
    return Mark(f"block.{block_id}", grid.place(block_id), "card free askable tiny", tip=tip)


def _on_ranks(num_ranks: int) -> str:
    return f", a slice on each of {num_ranks} ranks" if num_ranks > 1 else ""


def _fill_of(scene: Scene, block_id: int) -> int:
    """How many slots of a block hold tokens that its owner has computed (or, where nobody owns it, that lie there
    still).
    """
    return sum(slot is not None for slot in scene.state.slots[block_id])


def _block_class(scene: Scene, block_id: int, turn: int | None) -> str:
    owners = scene.owners.get(block_id)
    if block_id == 0 and scene.state.has_null_block and not owners:
        return "card null"  # never handed out, so there is no pointing at it
    if owners:
        mine, dashed = scene.selected in owners, " windowed" if scene.is_windowed(block_id) else ""
        hue = scene.hue(scene.selected if mine else owners[0])
        return f"card owned{' mine' if mine else ''}{dashed} {hue} askable"
    return f"card {'kept' if block_id in scene.state.cached else 'free'} askable"


def _block_tip(scene: Scene, block_id: int, turn: int | None) -> str:
    """What a pointer or a screen reader learns. Nothing that changes for many blocks at every step: no place in the
    queue beyond the ninth, no count of slots.
    """
    state, owners = scene.state, scene.owners.get(block_id, [])
    parts = [f"Block #{block_id}"]
    if block_id == 0 and state.has_null_block:
        parts.append("the null block: never handed out")
    if owners:
        parts.append(f"held by {labels.listed(scene.names[r] for r in owners)}, ref_cnt {state.ref_cnt[block_id]}")
    elif turn is not None:
        place = ", next in the queue" if turn == 0 else f", {ordinal(turn + 1)} in the queue" if turn < 9 else ""
        parts.append(f"free{place}")
    if block_id in state.cached:
        parts.append("cached")
    if scene.is_windowed(block_id):
        parts.append("for layers with a window")
    return ", ".join(parts) + _on_ranks(scene.num_ranks)


def _detail(scene: Scene, grid: Grid, block_id: int, turn: int | None) -> Iterator[Mark]:
    """A block with its number, its owners, its slots."""
    state, id = scene.state, f"block.{block_id}"
    x, y, w, h = grid.place(block_id)
    owners = scene.owners.get(block_id, [])
    mine = scene.selected in owners
    cached = block_id in state.cached
    yield Mark(id, (x, y, w, h), _block_class(scene, block_id, turn), tip=_block_tip(scene, block_id, turn))
    strong = mine or not owners
    number = f"#{block_id}"
    if mine:  # as in the block table
        w_n = measure(number, "s12 mono")
        yield Mark(f"{id}.chip", (x + 5, y + 5, w_n + 6, 14.5), f"cell {scene.hue(scene.selected)}")
    yield Mark(
        f"{id}.n", (x + 8, y + 16), f"text mono s12 {'bold on' if mine else 'soft' if owners else ''}".rstrip(), number
    )
    if cached:
        beside = x + (13 if mine else 10) + measure(number, "s12 mono")
        yield Mark(f"{id}.cached", (beside, y + 15.5), "text s9 soft", "◆")
    yield from _owners(
        scene, block_id, owners, (x + w - 8, y + 16), w - 22 - measure(number, "s12 mono") - (12 if cached else 0)
    )
    if block_id == 0 and state.has_null_block and not owners:
        yield Mark(f"{id}.word", (x + w / 2, y + h / 2 + 6), "text s10 soft mid", "null block" if w > 66 else "null")
        never = fitted(("never used", "unused"), w - 6, "s9")
        yield Mark(f"{id}.never", (x + w / 2, y + h / 2 + 17), "text s9 soft mid", never)
        return
    box = (x + 7, y + 23, w - 14, h - 31)
    if owners or cached:
        hue = scene.hue(scene.selected if mine else owners[0]) if owners else ""
        if not owners:
            box = (x + 7, y + 20, w - 14, h - 38)  # its place in the queue stands below
        box = yield from _also(scene, block_id, box, owners)
        for id, of_rank in _slices(scene, block_id, box):
            yield from _slots(scene, block_id, of_rank, hue, strong, id)
    if turn is not None:
        yield from _turn(scene, block_id, (x, y, w, h), turn, cached)
    yield from _copied(scene, block_id, (x, y, w, h))
    if scene.guess == block_id:
        yield Mark("guess", (x - 3, y - 3, w + 6, h + 6), "over guess")


def _copied(scene: Scene, block_id: int, box: tuple[float, float, float, float]) -> Iterator[Mark]:
    """A ring around every copy of this step (copy-on-write)."""
    x, y, w, h = box
    if block_id in scene.owners and block_id in scene.copies:
        yield Mark(f"block.{block_id}.copy", (x - 2, y - 2, w + 4, h + 4), "over copied")


def _turn(
    scene: Scene, block_id: int, box: tuple[float, float, float, float], turn: int, cached: bool
) -> Iterator[Mark]:
    """A free block's place in the queue."""
    x, y, w, h = box
    word = fitted(("next free", "next"), w - 8, "s11 bold") if turn == 0 else ordinal(turn + 1)
    at = y + h - 6 if cached else y + h / 2 + 13
    yield Mark(f"block.{block_id}.turn", (x + w / 2, at), f"text s11 mid {'bold' if turn == 0 else 'soft'}", word)
    if turn == 0:
        yield Mark("next", (x, y, w, h), "over next")


def _owners(scene: Scene, block_id: int, owners: list[str], at: tuple[float, float], room: float) -> Iterator[Mark]:
    """Who holds the block, in their hues, right-aligned; the selected request first."""
    order = sorted(owners, key=lambda r: r != scene.selected)
    shown, used = [], 0.0
    for i, request_id in enumerate(order):
        w = measure(scene.names[request_id], "bold")
        rest = len(order) - i - 1
        if shown and used + w + 4 + (20 if rest else 0) > room:
            break
        shown.append((request_id, w))
        used += w + 4
    x, y = at
    if len(shown) == 1 and shown[0][1] + (18 if len(order) > 1 else 0) > room:  # too narrow even for one: smaller
        cls = f"text s9 bold end hue {scene.hue(order[0])}"
        name = fitted(crowd([scene.names[r] for r in order]), room + 4, "s9 bold")
        yield Mark(f"block.{block_id}.owner.{order[0]}", (x + 3, y), cls, name)
        return
    if len(shown) < len(order):
        more = f"+{len(order) - len(shown)}"
        yield Mark(f"block.{block_id}.more", (x, y), "text s10 soft end", more)
        x -= measure(more, "s10") + 4
    for request_id, w in reversed(shown):
        yield Mark(
            f"block.{block_id}.owner.{request_id}",
            (x, y),
            f"text bold end hue {scene.hue(request_id)}",
            scene.names[request_id],
        )
        x -= w + 4


def _also(scene: Scene, block_id: int, box: tuple[float, float, float, float], owners: list[str]) -> Iterator[Mark]:
    """Under the slots of a shared block, which have one owner's hue: a stripe in the hue of each of the others (two at
    most). Returns what is left of the box."""
    x, y, w, h = box
    first = scene.hue(scene.selected if scene.selected in owners else owners[0]) if owners else ""
    hues = [hue for hue in dict.fromkeys(scene.hue(r) for r in owners) if hue != first][: 2 if h >= 16 else 1]
    if h < 10:
        return box
    for k, hue in enumerate(hues):
        h -= 4.6
        yield Mark(f"block.{block_id}.also.{k}", (x, y + h + 1.2, w, 3.4), f"cell sharp {hue}")
    return x, y, w, h


def _slices(
    scene: Scene, block_id: int, box: tuple[float, float, float, float]
) -> list[tuple[str, tuple[float, float, float, float]]]:
    """A part of the box for each rank that has a slice of the block, one below the other, and the name of its marks;
    one for all of them where they would be too low to see."""
    (x, y, w, h), many, id = box, scene.num_ranks, f"block.{block_id}"
    height = (h - SLICE_GAP * (many - 1)) / many
    if many == 1 or height < LEAST_SLICE:
        return [(id, box)]
    return [(f"{id}.rank{rank}", (x, y + rank * (height + SLICE_GAP), w, height)) for rank in range(many)]


def _slots(
    scene: Scene, block_id: int, box: tuple[float, float, float, float], hue: str, strong: bool, id: str
) -> Iterator[Mark]:
    """A block's slots in one, two or four lines; a bar where they would be too narrow. No hue: kept by the prefix cache
    only. ``id``: of the marks.
    """
    state = scene.state
    x, y, w, h = box
    size = state.block_size
    dim = "" if strong else "dim"
    new = [o for b, o in state.written if b == block_id]
    for lines in (1, 2, 4):
        per_line = math.ceil(size / lines)
        gap = 2.0 if per_line <= 8 else 1.0
        slot_w, slot_h = (w - gap * (per_line - 1)) / per_line, (h - gap * (lines - 1)) / lines
        if slot_w >= (5.0 if lines == 1 else 3.0) and slot_h >= 4:
            break
    else:
        if hue:
            yield from bar(id, (x, y, w, min(h, 14.0)), _fill_of(scene, block_id), size, new, hue, dim)
            if h >= 26:
                yield Mark(
                    f"{id}.count", (x + w / 2, y + 26), "text mono s9 soft mid", f"{_fill_of(scene, block_id)}/{size}"
                )
        else:
            yield Mark(f"{id}.full", (x, y, w, min(h, 14.0)), "cell sharp ghost")
        return
    sharp = "" if slot_w > 6 and slot_h > 6 else "sharp "
    for offset in range(size):
        place = (x + offset % per_line * (slot_w + gap), y + offset // per_line * (slot_h + gap), slot_w, slot_h)
        slot = state.slots[block_id][offset]
        if not hue:
            if slot is not None:
                yield Mark(f"{id}.s{offset}", place, f"cell {sharp}ghost")
        elif slot is not None:
            yield Mark(f"{id}.s{offset}", place, f"cell {sharp}{dim + ' ' if dim else ''}{hue}")
        else:
            yield Mark(f"{id}.s{offset}", place, f"cell {sharp}hatched {'faint ' if dim else ''}{hue}")
    if hue:
        yield from outlines(
            f"{id}.new", new, per_line, (x, y), (slot_w, slot_h), (gap, gap), "over" if not sharp else "over sharp"
        )


def _medium(scene: Scene, grid: Grid, block_id: int, turn: int | None) -> Iterator[Mark]:
    """A block with its number, one owner's letter and a bar."""
    state, id = scene.state, f"block.{block_id}"
    x, y, w, h = grid.place(block_id)
    owners = scene.owners.get(block_id, [])
    mine = scene.selected in owners
    yield Mark(id, (x, y, w, h), _block_class(scene, block_id, turn) + " tiny", tip=_block_tip(scene, block_id, turn))
    if mine:  # as in the block table
        chip = (x + 1.6, y + 1.8, 5 * len(str(block_id)) + 3, 9)
        yield Mark(f"{id}.chip", chip, f"cell sharp {scene.hue(scene.selected)}")
    yield Mark(f"{id}.n", (x + 3, y + 9), f"text mono s8 {'bold on' if mine else 'soft'}", str(block_id))
    if block_id == 0 and state.has_null_block and not owners:
        word = fitted(("null block", "null"), w - 4, "s8")
        yield Mark(f"{id}.word", (x + w / 2, y + h - 4), "text s8 soft mid", word)
    if owners:
        who = scene.selected if mine else owners[0]
        hue = scene.hue(who)
        order = sorted(owners, key=lambda r: r != who)
        name = fitted(crowd([scene.names[r] for r in order]), w - 8 - 5 * len(str(block_id)), "s8")
        yield Mark(f"{id}.owner.{who}", (x + w - 3, y + 9), f"text s8 bold end hue {hue}", name)
        new = [o for b, o in state.written if b == block_id]
        fill, size = _fill_of(scene, block_id), state.block_size
        counted = h >= 33 and w >= 40  # slots cannot be told apart in a bar
        box = yield from _also(scene, block_id, (x + 3, y + 12, w - 6, h - (24 if counted else 15)), owners)
        for of_rank, part in _slices(scene, block_id, box):
            yield from bar(of_rank, part, fill, size, new, hue, "" if mine else "dim")
        if counted:
            yield Mark(f"{id}.count", (x + w / 2, y + h - 3.5), "text mono s8 soft mid", f"{fill}/{size}")
        yield from _copied(scene, block_id, (x, y, w, h))
    elif block_id in state.cached:
        yield Mark(f"{id}.full", (x + 3, y + h - 6, w - 6, 3), "cell sharp ghost")
    if turn is not None:
        word = fitted(("next free", "next"), w - 6, "s8 bold") if turn == 0 else ordinal(turn + 1)
        yield Mark(
            f"{id}.turn",
            (x + w - 3, y + 9 if h < 22 else y + h - 7),
            f"text s8 end {'bold' if turn == 0 else 'soft'}",
            word if turn < 9 else "later",
        )
        if turn == 0:
            yield Mark("next", (x, y, w, h), "over next")
    if scene.guess == block_id:
        yield Mark("guess", (x - 2, y - 2, w + 4, h + 4), "over guess")


def _small(scene: Scene, grid: Grid, block_id: int, turn: int | None) -> Iterator[Mark]:
    """A block as a small cell: hue and letter, the filled part at full height."""
    state, id = scene.state, f"block.{block_id}"
    x, y, w, h = grid.place(block_id)
    owners = scene.owners.get(block_id, [])
    mine = scene.selected in owners
    yield Mark(id, (x, y, w, h), _block_class(scene, block_id, turn) + " tiny", tip=_block_tip(scene, block_id, turn))
    if owners:
        who = scene.selected if mine else owners[0]
        hue, name = scene.hue(who), scene.names[who]
        new = [o for b, o in state.written if b == block_id]
        fill, size = _fill_of(scene, block_id), state.block_size
        yield from bar(id, (x + 1, y + 1, w - 2, h - 2), fill, size, new, hue, "dim", outline="over sharp fine")
        yield Mark(
            f"{id}.owner.{who}",
            (x + w / 2, y + h / 2 + 3),
            f"text s8 mid {'bold' if mine else ''}".rstrip(),
            fitted(name, w, "s8"),
        )
    elif block_id in state.cached:
        yield Mark(f"{id}.full", (x + 2, y + h - 4, w - 4, 2), "cell sharp ghost")
    if turn is not None and turn < 9:
        yield Mark(
            f"{id}.turn", (x + w / 2, y + h / 2 + 3), f"text s8 mid {'bold' if turn == 0 else 'soft'}", str(turn + 1)
        )
        if turn == 0:
            yield Mark("next", (x, y, w, h), "over next")
    if scene.guess == block_id:
        yield Mark("guess", (x - 1, y - 1, w + 2, h + 2), "over guess")


def _coarse(scene: Scene, grid: Grid) -> Iterator[Mark]:
    """Too many blocks: each cell is ``per_cell`` neighbours; its filled part is the share in use, its hue who holds
    most.
    """
    state, k = scene.state, grid.per_cell
    for cell in range(grid.count):
        x, y, w, h = grid.place(cell)
        blocks = range(cell * k, min((cell + 1) * k, state.num_blocks))
        held: dict[str, int] = {}
        for block_id in blocks:
            for request_id in scene.owners.get(block_id, [])[:1]:
                held[request_id] = held.get(request_id, 0) + 1
            if scene.selected in scene.owners.get(block_id, []):
                held[scene.selected] = held.get(scene.selected, 0) + k  # the selected request is never lost in a crowd
        used = sum(block_id in scene.owners for block_id in blocks)
        who = max(held, key=held.__getitem__) if held else None
        hue = scene.hue(who) if who is not None else ""
        mine = who is not None and who == scene.selected
        cls = f"card owned{' mine' if mine else ''} {hue}" if who is not None else "card free"
        yield Mark(
            f"cell.{cell}",
            (x, y, w, h),
            f"{cls} tiny",
            tip=f"Blocks #{blocks[0]} to #{blocks[-1]}: {used} of {len(blocks)} in use",
        )
        if who is not None:
            yield Mark(
                f"cell.{cell}.full", (x + 1, y + 1, (w - 2) * used / len(blocks), h - 2), f"cell sharp dim {hue}"
            )
            yield Mark(
                f"cell.{cell}.owner.{who}",
                (x + w / 2, y + h / 2 + 3),
                f"text s8 mid {'bold' if mine else ''}".rstrip(),
                fitted(scene.names[who] + ("+" if len(held) > 1 else ""), w, "s8"),
            )
