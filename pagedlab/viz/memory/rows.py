"""The memory map's left half: what the selected request sees, and its block table, row beside row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pagedlab.viz.kit import labels
from pagedlab.viz.kit.labels import crowd, plural
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.scene import Scene
from pagedlab.viz.kit.slots import bar, outlines
from pagedlab.viz.kit.text import clip, fit, fitted, measure, width
from pagedlab.viz.memory.places import BOTTOM, SEEN, TABLE, TOP

ROW_GAP = 14.0
WAITING_HEIGHT = 30.0
TOKEN_SIZES = {12: "s12", 10.5: "s10", 9.5: "s9", 8: "s8"}  # of a token's text: in pixels, the class


@dataclass
class Rows:
    """Where the logical blocks that are shown lie. ``gap_at``: y of the line that stands for the ``hidden`` ones, if
    any.
    """

    place: dict[int, tuple[float, float]]  # logical block -> y, height
    hidden: int
    gap_at: float | None
    end: float


def place_rows(scene: Scene) -> Rows:
    """All logical blocks where there is room; else the first, a line "… n more", and the last ones."""
    count = len(scene.table)
    room = BOTTOM - TOP - WAITING_HEIGHT - 14
    if count == 0:
        return Rows({}, 0, None, TOP)
    cap = max(44.0, 20.0 * math.ceil(scene.state.block_size / 4) + 8)  # a row need not be taller than its text wants
    pitch = min(cap + ROW_GAP, (room + ROW_GAP) / count)
    # The lowest row: one line of words, in the slots or, where these are too narrow, under them.
    least, height = (25.0, 20.0) if _slot_lines(scene.state.block_size, SEEN[1] - 6, 16) else (33.0, 27.0)
    if pitch >= least:
        gap = min(ROW_GAP, pitch * 0.25)
        place = {i: (TOP + i * pitch, pitch - gap) for i in range(count)}
        return Rows(place, 0, None, TOP + count * pitch - gap)
    pitch = least
    place = {0: (TOP, height)}
    visible = int(room // pitch) - 1  # one line is the gap
    for k, i in enumerate(range(count - visible + 1, count)):
        place[i] = (TOP + (k + 2) * pitch, height)
    return Rows(place, count - len(place), TOP + pitch, TOP + (visible + 1) * pitch - (pitch - height))


def seen_marks(scene: Scene, rows: Rows) -> Iterator[Mark]:
    state, request_id = scene.state, scene.selected
    x, w = SEEN
    if not rows.place:
        if request_id is not None:
            yield from _nothing_held(scene)
        return
    if rows.gap_at is not None:
        yield Mark(
            "seen.more", (x + w / 2, rows.gap_at + 14), "text s11 soft mid", f"… {plural(rows.hidden, 'more block')}"
        )
    new = set() if scene.swapped else set(state.written)
    for logical, (y, h) in rows.place.items():
        block_id = scene.table[logical]
        yield Mark(
            f"seen.{logical}.n",
            (30, y + h / 2 + 5),
            "text mono semi soft mid s15" if h >= 30 else "text mono semi soft mid s11",
            str(logical),
        )
        yield Mark(f"seen.{logical}", (x, y, w, h), "card")
        written_now = [o for o in range(state.block_size) if (block_id, o) in new]
        yield from _tokens(
            scene,
            logical,
            block_id,
            written_now,
            (x + 4, y + 4, w - 8, h - 8) if h >= 30 else (x + 3, y + 2, w - 6, h - 4),
        )


def _nothing_held(scene: Scene) -> Iterator[Mark]:
    request = scene.state.requests[scene.selected]
    name = scene.names[scene.selected]
    says = {
        "finished": f"{name} is finished. It holds no block any more.",
        "preempted": f"{name} lost its blocks. When there is room,",
        "refused": f"{name} was turned away.",
    }.get(request.status, f"{name} waits for its first step.")
    yield Mark("seen.none", (SEEN[0], TOP + 22), "text s13 soft", says)
    if request.status == "preempted":
        yield Mark("seen.none.2", (SEEN[0], TOP + 40), "text s13 soft", "its tokens are computed again.")
    yield Mark("table.none", (TABLE[0], TOP + 22), "text s13 soft", "empty")


def _tokens(
    scene: Scene, logical: int, block_id: int, new: list[int], box: tuple[float, float, float, float]
) -> Iterator[Mark]:
    """The slots of one logical block: with each token's text where it fits, else narrow slots over a line of text, else
    a bar.
    """
    state, request_id = scene.state, scene.selected
    x, y, w, h = box
    size, filled, hue = state.block_size, state.filled(request_id, logical), scene.hue(request_id)
    texts = state.requests[request_id].texts
    start = logical * size
    lines = _slot_lines(size, w, h)
    if lines:
        per_line = math.ceil(size / lines)
        gap = 4.0 if size <= 4 * lines else 3.0
        slot_w, slot_h = (w - gap * (per_line - 1)) / per_line, (h - 2.0 * (lines - 1)) / lines
        font = 12 if slot_w >= 60 and slot_h >= 15 else 10.5 if slot_h >= 13 else 9.5
        for offset in range(size):
            position = start + offset
            place = (x + offset % per_line * (slot_w + gap), y + offset // per_line * (slot_h + 2.0), slot_w, slot_h)
            if offset >= filled:
                yield Mark(f"hole.{request_id}.{position}", place, f"cell hatched {hue}")
                continue
            text, ink = texts[position], hue
            slot = scene.pool.slots[block_id][offset]
            foreign = state.edited and (slot is None or slot.text != text or slot.position != position)
            if foreign:  # the model reads what lies there, whoever wrote it
                text, ink = ("?", hue) if slot is None else (slot.text, scene.hue(slot.request_id))
            whole = labels.token(text)
            sizes = [s for s in TOKEN_SIZES if s <= font]  # smaller before it is cut
            fits = next((s for s in sizes if width(whole, s, mono=True) <= slot_w - 6), sizes[-1])
            shown = fit(whole, slot_w - 6, fits, mono=True)
            yield Mark(f"token.{request_id}.{position}", place, f"cell {ink}")
            if foreign:
                by = "nobody" if slot is None else scene.names[slot.request_id]
                tip = f"Not {scene.names[request_id]}'s own: {by} wrote here"
                around = (place[0] - 2.5, place[1] - 2.5, slot_w + 5, slot_h + 5)  # seen beside "written in this step"
                yield Mark(f"foreign.{request_id}.{position}", around, "over alarm", tip=tip)
            yield Mark(
                f"token.{request_id}.{position}.t",
                (place[0] + slot_w / 2, place[1] + slot_h / 2 + fits * 0.36),
                f"text mono semi mid on {TOKEN_SIZES[fits]}",
                shown,
            )
        yield from outlines(f"new.{request_id}.{start}", new, per_line, (x, y), (slot_w, slot_h), (gap, 2.0), "over")
        return
    bar_h = 9.0 if h >= 28 else 7.0 if h >= 18 else h
    text_room = h - bar_h - 2
    gap = 1.5
    slot_w = (w - gap * (size - 1)) / size
    if slot_w >= 3.5:
        for offset in range(size):
            place = (x + offset * (slot_w + gap), y, slot_w, bar_h)
            kind = "token" if offset < filled else "hole"
            yield Mark(
                f"{kind}.{request_id}.{start + offset}",
                place,
                f"cell sharp {'hatched ' if kind == 'hole' else ''}{hue}",
            )
        yield from outlines(f"new.{request_id}.{start}", new, size, (x, y), (slot_w, bar_h), (gap, 0), "over sharp")
    else:
        label = f"{filled}/{size}"
        bar_w = w - measure(label, "s9 mono") - 8
        yield from bar(f"seen.{logical}", (x, y, bar_w, bar_h), filled, size, new, hue, "")
        yield Mark(f"seen.{logical}.count", (x + w, y + min(bar_h, 12) / 2 + 4), "text mono s9 soft end", label)
    if text_room < 9:
        return
    text = "".join(labels.printable(t.replace("\\n", "↵")) for t in texts[start : start + filled]).strip()
    columns = int(w / measure("x", "s10 mono"))
    num_lines = max(1, int(text_room // 13))
    chunks = [text[i : i + columns] for i in range(0, len(text), columns)]
    if len(chunks) > num_lines:
        chunks = (
            [*chunks[: num_lines - 1], clip(chunks[num_lines - 1] + "…", columns)]
            if not new
            else ["…" + chunks[-num_lines][1:], *chunks[len(chunks) - num_lines + 1 :]]
        )
    for i, chunk in enumerate(chunks):
        yield Mark(
            f"seen.{logical}.line{i}",
            (x, y + bar_h + (12 if h >= 28 else 10) + 13 * i),
            "text mono s10",
            clip(chunk, columns),
        )


def _slot_lines(size: int, w: float, h: float) -> int:
    """Over how many lines to spread the slots so that a token's text fits into each; 0 where it never does."""
    for lines in range(1, size + 1):
        per_line = math.ceil(size / lines)
        uneven = size % lines and size > 7  # a last line that is shorter is worth it for an odd block size only
        if not uneven and (w - 3.0 * (per_line - 1)) / per_line >= 48:
            return lines if (h - 2.0 * (lines - 1)) / lines >= 11.5 else 0
    return 0


def waiting_marks(scene: Scene, rows: Rows) -> Iterator[Mark]:
    """Tokens without a slot: the one sampled last, or what is left of a prompt."""
    if scene.selected is None:
        return
    request, hue = scene.state.requests[scene.selected], scene.hue(scene.selected)
    pending = request.pending
    if not pending or request.status == "refused":
        return
    slot_w = 74.0
    y = max(rows.end, TOP + (56 if not rows.place else 0)) + (16 if rows.end + 16 + WAITING_HEIGHT <= BOTTOM else 8)
    y = min(y, BOTTOM - WAITING_HEIGHT)
    one = len(pending) == 1
    shown = pending[:1] if one else pending[: 1 if rows.place else 4]
    x = SEEN[0] + 4
    for position, text in shown:
        word = labels.token(text)
        size = next((s for s in TOKEN_SIZES if width(word, s, mono=True) <= slot_w - 6), 8)
        word = fit(word, slot_w - 6, size, mono=True)
        yield Mark(f"token.{scene.selected}.{position}", (x, y, slot_w, WAITING_HEIGHT), f"cell waiting {hue}")
        yield Mark(
            f"token.{scene.selected}.{position}.t",
            (x + slot_w / 2, y + 19),
            f"text mono semi mid hue {TOKEN_SIZES[size]} {hue}",
            word,
        )
        x += slot_w + 4
    more = len(pending) - len(shown)
    if request.status == "finished":
        lines = ("sampled last and never written:", "nothing needs its K and V any more")
    elif one and request.num_tokens > request.num_prompt_tokens:
        last = request.texts[request.num_computed_tokens - 1] if rows.place else None
        what = "sampled again" if pending[0][1] == last else "sampled"
        lines = (f"{what}, not in memory yet:", "the next step writes it")
    else:
        lines = (f"and {more} more," if more else "", "not in memory yet")
    if (
        x + 8 + measure(lines[1], "soft") > SEEN[0] + SEEN[1] + 20
    ):  # under the tokens, where there is room because no block is held
        yield Mark("waiting.1", (SEEN[0] + 4, y + WAITING_HEIGHT + 18), "text soft", " ".join(filter(None, lines)))
        return
    if lines[0]:
        yield Mark("waiting.1", (x + 6, y + 13), "text soft", lines[0])
    yield Mark("waiting.2", (x + 6, y + (28 if lines[0] else 20)), "text soft", lines[1])


def table_marks(scene: Scene, rows: Rows) -> Iterator[Mark]:
    state, request_id = scene.state, scene.selected
    x, w = TABLE
    if rows.gap_at is not None:
        hidden = " ".join(f"#{b}" for i, b in enumerate(scene.table) if i not in rows.place)
        text = fitted((hidden, "…"), w, "s10")
        yield Mark("table.more", (x + w / 2, rows.gap_at + 14), "text s10 soft mid", text)
    for logical, (y, h) in rows.place.items():
        block_id = scene.table[logical]
        filled, size, hue = state.filled(request_id, logical), state.block_size, scene.hue(request_id)
        shared = scene.pool.ref_cnt[block_id]
        yield Mark(
            f"table.{logical}",
            (x, y, w, h),
            f"card grab {hue}" if scene.live and request_id in state.tables else "card",
            tip=f"Logical block {logical} is physical block {block_id}, {filled} of {size} slots "
            f"filled, ref_cnt {shared}",
        )
        yield from _entry(scene, logical, (y, h), shared)


def _entry(scene: Scene, logical: int, row: tuple[float, float], shared: int) -> Iterator[Mark]:
    """An entry of the table: where to, how full, how often its block is held. In two lines; where the row is too low
    for them, the first one stands in its middle."""
    state, id, (x, w), (y, h) = scene.state, f"table.{logical}", TABLE, row
    block_id, hue = scene.table[logical], scene.hue(scene.selected)
    filled, size = state.filled(scene.selected, logical), state.block_size
    high, two = h >= 40, h >= 30
    big, font = ("s15", 15) if two else ("s12", 12)
    at = (16, 30, 49) if two else (12, 21, 40)
    line = y + h / 2 + (1 if high else -1 if two else 4.5)
    below = y + h / 2 + (16 if high else 12.5 if two else 8.5)
    number = f"#{block_id}"
    room = 2 * (at[1] - at[0]) - 2  # up to the arrow
    sizes = [size for size in (big, *TOKEN_SIZES.values()) if measure(str(logical), f"mono {size}") <= room]
    yield Mark(f"{id}.n", (x + at[0], line), f"text mono semi soft mid {sizes[0] if sizes else 's8'}", str(logical))
    yield Mark(f"{id}.to", (x + at[1], line), "text soft s13", "→")
    chip = (x + at[2] - 3, line - font * 0.73 - 2.5, width(number, font, mono=True) + 6, font * 0.73 + 5)
    yield Mark(f"{id}.chip", chip, f"cell {hue}")  # the same one is in the pool
    yield Mark(f"{id}.p", (x + at[2], line), f"text mono bold on {big}", number)
    fill = f"{filled}/{size}"
    end, small = x + w - 8, width(fill, 10.5 if two else 9.5, mono=True)
    yield Mark(f"{id}.fill", (end, below - (4 if high else 0)), f"text mono {'s10' if two else 's9'} soft end", fill)
    if two:
        yield from _mini(id, (end - 38, y + h / 2 - (9 if high else 11), 38, 8), filled, size, hue)
    elif (room := end - small - 5 - (x + at[2] + width(number, font, mono=True) + 8)) >= 14:
        bar_w = min(30.0, room)
        yield from bar(id, (end - small - 5 - bar_w, below - 6.5, bar_w, 6), filled, size, (), hue, "")
    if scene.selected in state.regions:
        return
    ref = f"ref_cnt {shared}"
    holders = [scene.names[r] for r in scene.owners.get(block_id, [])]
    if two:
        ways = [f"{ref}: {', '.join(holders)}", *(f"{ref}: {words}" for words in crowd(holders)[:-1]), ref]
        room = w - 22 - small
        ref = "CPU memory" if scene.swapped else fitted(ways, room, "s9")
        yield Mark(f"{id}.ref", (x + 10, below), "text s9 soft", ref)
    else:
        yield Mark(f"{id}.ref", (end, y + h / 2 - 1.5), "text s8 soft end", "CPU" if scene.swapped else ref)


def _mini(id: str, box: tuple[float, float, float, float], filled: int, size: int, hue: str) -> Iterator[Mark]:
    x, y, w, h = box
    if size > 8:
        yield from bar(id, box, filled, size, (), hue, "")
        return
    slot = min(6.0, (w - 2 * (size - 1)) / size)
    x += w - (slot + 2) * size + 2
    for i in range(size):
        yield Mark(
            f"{id}.s{i}", (x + i * (slot + 2), y, slot, h), f"cell sharp {'' if i < filled else 'hatched '}{hue}"
        )
