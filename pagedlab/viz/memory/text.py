"""The memory map as text: what a request sees, its block table, the pool, and what the step did."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from pagedlab.trace import MemoryState
from pagedlab.trace.events import Event
from pagedlab.viz.kit import labels
from pagedlab.viz.kit.badge import badge_text
from pagedlab.viz.kit.scene import Scene
from pagedlab.viz.kit.text import cells, clip
from pagedlab.viz.memory.words import headline, scale, story

MOST_BLOCKS = 64  # of the pool; more are counted
# One of the terminal's own colours for each hue, so that they suit its background.
_ANSI = (34, 33, 32, 35, 36, 31, 92, 94)


def draw(
    state: MemoryState,
    events: Sequence[Event],
    header: dict[str, Any],
    selected: str | None = None,
    *,
    position: int = 0,
    num_steps: int | None = None,
    live: bool = True,
    width: int = 80,
    color: bool = False,
) -> str:
    """The picture in lines of at most ``width`` columns.

    ``events``: those of the step that led to ``state``. ``selected``: whose memory to show; None takes the first that
    runs. ``color``: use ANSI colours (``sys.stdout.isatty()`` tells).
    """
    if selected is None:
        selected = next(iter([*state.running, *state.waiting, *state.requests]), None)
    scene = Scene(state, events, header, selected, position, position if num_steps is None else num_steps, live)
    lines = _top(scene, width, color)
    if selected is not None:
        lines += ["", *_seen(scene, width, color)]
    lines += ["", *_pool(scene, width, color), ""]
    for paragraph in filter(None, story(scene)):
        # Terminals show the marks around words of another writing direction.
        lines += textwrap.wrap(paragraph.replace(labels.ISOLATED, "").replace(labels.ISOLATED_END, ""), width)
    free = state.free
    order = " → ".join(f"#{b}" for b in free[:6]) + (" → …" if len(free) > 6 else "")
    if state.cpu.tables:
        for request_id, blocks in state.cpu.tables.items():
            listed = labels.listed(f"#{b}" for b in blocks)
            lines += textwrap.wrap(f"In CPU memory: {scene.names[request_id]} ({listed})", width)
    lines.append(f"Next free: {order}   ({len(free)} of {scene.num_usable} free)" if free else "No block is free.")
    if bytes_of := scale(header, state.block_size):
        lines += textwrap.wrap(bytes_of, width)
    return "\n".join(line.rstrip() for line in lines)


def _paint(scene: Scene, request_id: str, text: str, color: bool, strong: bool = True) -> str:
    return f"\x1b[{'1;' if strong else ''}{_ANSI[scene.hues[request_id]]}m{text}\x1b[0m" if color else text


def _top(scene: Scene, width: int, color: bool) -> list[str]:
    past = " (the past)" if scene.live and scene.position < scene.num_steps else ""
    name = "" if scene.selected is None else scene.names[scene.selected] + ": "
    left = f"{name}{headline(scene)}"
    right = f"step {scene.position} of {scene.num_steps}{past} · {badge_text(scene.header, scene.live)}"
    if len(left) + len(right) + 2 <= width:
        return [left + " " * (width - len(left) - len(right)) + right]
    return [clip(left, width), clip(right, width)]


def _seen(scene: Scene, width: int, color: bool) -> list[str]:
    """One line for each logical block: its place in the table, then its tokens; "·" is a slot not yet written."""
    state, request_id = scene.state, scene.selected
    request, size = state.requests[request_id], state.block_size
    new = set(state.written)
    lines = [f"What {scene.names[request_id]} sees: logical block → physical block, and its tokens"]
    room = width - 26
    table, tables = scene.table, scene.tables if scene.has_groups else [scene.table]
    shown = range(len(table)) if len(table) <= 8 else [0, *range(len(table) - 6, len(table))]
    for i in shown:
        if len(table) > 8 and i == len(table) - 6:
            lines.append(f"   … {len(table) - 7} more blocks")
        filled = state.filled(request_id, i)
        words = []
        for offset in range(size):
            if offset >= filled:
                words.append("·")
            else:
                word = labels.token(request.texts[i * size + offset])
                words.append(f"[{word}]" if (table[i], offset) in new else word)
        shared = f"×{scene.pool.ref_cnt[table[i]]}" if scene.pool.ref_cnt[table[i]] > 1 else ""
        tail = clip(" ".join(words), room)
        if size > 8 and filled < size:  # the end is what changes
            written = " ".join(words[:filled])
            tail = (
                clip(written, room - 8) if cells(written) <= room - 8 else "…" + written[-(room - 10) :]
            )
            tail += f" +{size - filled}·"
        where = "/".join(f"#{of_group[i]}" if of_group[i] else "null" for of_group in tables)
        head = f"{i:3d} → {_paint(scene, request_id, f'{where:<6s}', color)}{filled:3d}/{size:<4d}{shared:<4s}"
        lines.append(f"{head}  {tail}")
    if request.pending and request.status != "refused":
        note = (
            "never written"
            if request.status == "finished"
            else "sampled, not in memory yet"
            if len(request.pending) == 1
            else f"{len(request.pending)} tokens not in memory yet"
        )
        lines.append(clip(f"{'':26s}({labels.token(request.pending[0][1])}) {note}", width))
    return lines


def _pool(scene: Scene, width: int, color: bool) -> list[str]:
    """A box for each physical block: number, owner, and a bar of its slots (█ written, ░ allocated, □ kept by the
    cache).
    """
    state = scene.state
    turn = {b: i for i, b in enumerate(state.free)}
    used = sum(bool(scene.owners.get(b)) for b in range(state.num_blocks))
    lines = [f"Pool: {used} of {scene.num_usable} blocks in use   █ written  ░ allocated, not written  ◆ cached"]
    blocks = list(range(state.num_blocks))
    if len(blocks) > MOST_BLOCKS:
        near = {*scene.owners, *state.free[:8]}
        blocks = [b for b in blocks if b in near][:MOST_BLOCKS]
        lines[0] = f"Pool: {used} of {scene.num_usable} blocks in use; shown are {len(blocks)}, those in use and next"
    bar = min(8, state.block_size)
    cell = max(14, bar + 8)
    per_line = max(1, width // cell)
    for start in range(0, len(blocks), per_line):
        lines.append("".join(_block(scene, b, turn.get(b), bar, cell, color) for b in blocks[start : start + per_line]))
    return lines


def _block(scene: Scene, block_id: int, turn: int | None, bar: int, cell: int, color: bool) -> str:
    state, owners = scene.state, scene.owners.get(block_id, [])
    mark = "◆" if block_id in state.cached else " "
    head = f"#{block_id}{mark}"
    if owners:
        mine = scene.selected in owners
        who = scene.selected if mine else owners[0]
        written = sum(s is not None for s in state.slots[block_id])
        full = math.floor(bar * written / state.block_size) if written else 0
        name = scene.names[who] + ("+" if len(owners) > 1 else "")
        body = f"{name:<2s}{'█' * full}{'░' * (bar - full)}"
        text = f"{head:<5s}{body}"
        return _paint(scene, who, text, color, mine) + " " * max(1, cell - len(text))
    word = (
        "null"
        if block_id == 0 and state.has_null_block
        else "next"
        if turn == 0
        else labels.ordinal(turn + 1)
        if turn is not None
        else ""
    )
    return f"{f'{head:<5s}{word}':<{cell}s}"
