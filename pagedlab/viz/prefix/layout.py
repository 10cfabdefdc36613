"""The prefix lab: the learner's prompt block by block, the tree of hashed blocks that it walks, who is evicted next.

``marks(scene)`` is a pure function of memory at one moment and of the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pagedlab.trace import events as ev
from pagedlab.viz.kit.areas import Area
from pagedlab.viz.kit.bars import time_bars
from pagedlab.viz.kit.head import LEFT, RIGHT, head_room, top_line
from pagedlab.viz.kit.labels import listed, ordinal, plural
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.strip import Strip
from pagedlab.viz.kit.table import row
from pagedlab.viz.kit.text import fitted, measure, wrapped
from pagedlab.viz.prefix.tree import Node, place_tree
from pagedlab.viz.prefix.words import Scene, headline, in_short, result, story, verdict, why
from pagedlab.viz.walk import Lookup, block_ids

SIZE = (960.0, 524.0)
PANEL = (14.0, 48.0, 932.0, 98.0)  # behind the learner's prompt, which is no part of the run
PROMPT_TOP, CARD, GAP = 68.0, (104.0, 44.0), 12.0
TREE_TOP, ROWS, COLUMNS = 170.0, 4, 8
QUEUE_TOP = 389.0
STORY = (437.0, 452.0)  # its two lines
STRIP = (482.0, 514.0)
AREAS = (
    Area((0, 0, 960, 47)),
    Area(PANEL),
    Area((0, 147, 960, 20)),
    Area((0, 167, 960, 206), "tree"),
    Area((0, 373, 586, 50)),
    Area((586, 373, 374, 55), "whole"),
    Area((0, 428, 960, 30)),
    Area((0, 458, 960, 18)),
    Area((0, 476, 960, 48), "chart", (LEFT, RIGHT)),
)


def marks(scene: Scene, step: str) -> list[Mark]:
    return [*_header(scene), *_prompt(scene), *_tree(scene), *_queue(scene), *_costs(scene), *_words(scene, step)]


def _header(scene: Scene) -> Iterator[Mark]:
    badge = fitted(scene.badge, 300, "soft")
    yield from top_line(headline(scene, head_room(badge)), badge, scene.live)


# ------------------------------------------------------------------------------------------------------ the prompt


def _prompt(scene: Scene) -> Iterator[Mark]:
    yield Mark("prompt.panel", PANEL, "card", tip="Your prompt: a question, no part of the run")
    yield Mark("prompt.title", (LEFT, 61), "text s11 bold soft", "YOUR PROMPT")
    sentence = result(scene)
    yield Mark("prompt.result", (LEFT + 104, 61), "text s11 bold" if scene.lookups else "text s11 soft", sentence)
    size = f"blocks of {plural(scene.state.block_size, 'token')}"
    ways = (f"{size}, each looked up with all before it", size)
    if len(scene.lookups) > COLUMNS:
        ways = tuple(f"{way}; + {plural(len(scene.lookups) - COLUMNS, 'block')} more" for way in ways)
    room = RIGHT - LEFT - 104 - measure(sentence, "s11 bold") - 12
    yield Mark("prompt.what", (RIGHT, 61), "text s11 soft end", fitted(ways, room, "s11"))
    for lookup in scene.lookups[:COLUMNS]:
        yield from _lookup(scene, lookup)
    yield Mark("prompt.why", (LEFT, PROMPT_TOP + 73), "text s11", fitted(why(scene), RIGHT - LEFT, "s11"))


def _lookup(scene: Scene, lookup: Lookup) -> Iterator[Mark]:
    """A chip: choosing it walks that far."""
    x, y = LEFT + lookup.logical * (CARD[0] + GAP), PROMPT_TOP
    i, done = lookup.logical, lookup.logical < scene.looked_up
    now = scene.now is not None and i == scene.now.logical
    sentence = verdict(lookup, scene) if done else "not looked up yet"
    cls = (
        "card chip plain block"
        + (" found" if done and lookup.outcome in ("hit", "last") else "")
        + (" now" if now else "")
        + (" pale" if lookup.outcome == "partial" else "")
    )
    tip = f"Walk to block {i}: {scene.words(lookup.token_ids)}. {sentence}"
    yield Mark(f"chip.{i + 1}", (x, y, *CARD), cls, tip=tip)
    yield Mark(f"prompt.{i}.n", (x + 8, y + 16), "text mono s12 bold", str(i))
    sign = {"hit": "✓", "last": "↻", "miss": "✗", "partial": "–", "after": "–"}[lookup.outcome] if done else "?"
    if done and lookup.block_id is not None:
        sign += f" #{lookup.block_id}"
    yield Mark(f"prompt.{i}.sign", (x + CARD[0] - 8, y + 16), "text mono s12 bold end", sign)
    yield Mark(f"prompt.{i}.t", (x + 8, y + 35), "text s10", _preview(scene.words(lookup.token_ids)))
    yield Mark(
        f"prompt.{i}.v",
        (x + CARD[0] / 2, y + 57),
        f"text s10 mid {'bold' if now else 'soft'}",
        fitted(in_short(lookup) if done else "", CARD[0] + 8, f"s10{' bold' if now else ''}"),
    )


def _preview(text: str) -> str:
    """The beginning of a block's text, inside its card: these signs are wider than ``width`` takes them to be."""
    return fitted(text, CARD[0] - 16 - 2.4 * sum(c in "<>↵=" for c in text[:15]), "s10")


# -------------------------------------------------------------------------------------------------------- the tree


def _tree(scene: Scene) -> Iterator[Mark]:
    state = scene.state
    path = [lookup.block_hash for lookup in scene.lookups if lookup.block_hash]
    nodes, left = place_tree(state, ROWS, COLUMNS, path)
    partial, missing = _partial(scene, nodes)
    yield Mark("tree.title", (LEFT, 162), "text s11 bold soft", "HASHED BLOCKS")
    what = f"{len(state.prefixes):,}, each behind the block before it"
    if not scene.attached:
        what += "; “free, 2nd”: its place in the free queue below"
    yield Mark("tree.what", (LEFT + 122, 162), "text s11 soft", what)
    more = [plural(left, "block") + " more"] if left else []
    more += missing if len(missing) == 1 else [f"{len(missing)} not full"] if missing else []
    if more:
        yield Mark("tree.more", (RIGHT, 162), "text s11 soft end", f"+ {' and '.join(more)}")
    if not nodes:
        yield Mark(
            "tree.none",
            (LEFT, TREE_TOP + 26),
            "text s13 soft",
            "None yet: a block gets its hash in the step that fills it.",
        )
        return
    ids = block_ids(state)
    turn = {b: i for i, b in enumerate(state.free)}
    walked = {lookup.block_hash for lookup in scene.lookups[: scene.looked_up] if lookup.block_hash}
    by_hash = {node.block_hash: node for node in nodes}
    for node in nodes:
        parent = by_hash.get(state.prefixes[node.block_hash].parent)
        if parent is not None:
            yield Mark(
                f"edge.{node.block_hash[:16]}",
                (),
                "path line" + (" chosen" if node.block_hash in walked else ""),
                _edge(parent, node),
            )
        elif node.orphan:
            x, y = _at(node)
            yield Mark(f"orphan.{node.block_hash[:16]}", (x - 5, y + 25), "text s11 soft end", "…")
    for node in nodes:
        yield from _node(scene, node, ids.get(node.block_hash), turn, node.block_hash in walked)
    for request_id, block_id, filled, parent, node in partial:
        id, (x, y) = f"partial.{request_id}", _at(node)
        if parent is not None:
            yield Mark(f"{id}.edge", (), "path line", _edge(parent, node))
        name, of = scene.names[request_id], f"{filled} of {state.block_size}"
        tip = f"#{block_id} of {name}: {of} slots hold a token, no hash yet"
        yield Mark(id, (x, y, *CARD), "card block pale", tip=tip)
        yield Mark(f"{id}.n", (x + 8, y + 16), "text mono s12 soft", f"#{block_id}")
        hue = f"c{scene.hues[request_id]}"
        yield Mark(f"{id}.who", (x + CARD[0] - 8, y + 16), f"text bold end hue {hue}", name)
        yield Mark(f"{id}.t", (x + 8, y + 33), "text s10 soft", f"{of}: no hash")


def _partial(scene: Scene, nodes: list[Node]) -> tuple[list[tuple[str, int, int, Node | None, Node]], list[str]]:
    """The block that each request is filling, behind its last hashed one: (request, block, slots filled, the node
    before it, its place). And those that found no room, in words."""
    state = scene.state
    taken = {(node.row, node.column) for node in nodes}
    by_hash = {node.block_hash: node for node in nodes}
    placed, missing = [], []
    for request_id, table in state.tables.items():
        logical = next((i for i, b in enumerate(table) if b not in state.cached), None)
        filled = state.filled(request_id, logical) if logical is not None else 0
        if not 0 < filled < state.block_size:
            continue
        parent = by_hash.get(state.cached[table[logical - 1]]) if logical else None
        row = 1 + max((r for r, _ in taken), default=-1)
        if parent is not None and (parent.row, logical) not in taken:
            row = parent.row
        if (parent is None and logical) or row >= ROWS or logical >= COLUMNS:
            missing.append(f"#{table[logical]} of {scene.names[request_id]}, not full: no hash")
            continue
        taken.add((row, logical))
        placed.append((request_id, table[logical], filled, parent, Node("", logical, row, False)))
    return placed, missing


def _at(node: Node) -> tuple[float, float]:
    return LEFT + node.column * (CARD[0] + GAP), TREE_TOP + node.row * (CARD[1] + 6)


def _edge(parent: Node, node: Node) -> str:
    (x0, y0), (x1, y1) = _at(parent), _at(node)
    if parent.row == node.row:
        return f"M{x0 + CARD[0]:g} {y0 + CARD[1] / 2:g}H{x1:g}"
    lane = x1 - GAP / 2
    return f"M{x0 + CARD[0]:g} {y0 + CARD[1] / 2:g}H{lane:g}V{y1 + CARD[1] / 2:g}H{x1:g}"


def _node(scene: Scene, node: Node, block_id: int | None, turn: Mapping[int, int], walked: bool) -> Iterator[Mark]:
    state, prefix = scene.state, scene.state.prefixes[node.block_hash]
    x, y = _at(node)
    id = f"node.{node.block_hash[:16]}"
    owners = state.owners(block_id) if block_id is not None else []
    revived = any(isinstance(e, ev.BlockTouched) and e.revived and e.block_id == block_id for e in scene.events)
    stored = any(
        isinstance(e, ev.BlockCached | ev.PrefixStored) and e.block_hash == node.block_hash for e in scene.events
    )
    if owners:
        cls, hue = f"card owned c{scene.hues[owners[0]]}", f"c{scene.hues[owners[0]]}"
    else:
        cls, hue = ("card kept", "") if block_id is not None else ("card", "")
    status = _status(scene, block_id, owners, turn, prefix.copies)
    new = "revived" if revived else "new" if stored else ""
    tip = f"{scene.words(prefix.token_ids)}: {status}" + (f", {new} in this step" if new else "")
    yield Mark(id, (x, y, *CARD), cls, tip=tip)
    number = f"#{block_id}" if block_id is not None else "?" if not scene.attached else ""
    if number:
        yield Mark(f"{id}.n", (x + 8, y + 16), "text mono s12 bold", number)
    start = 8 + (measure(number, "s12 mono") + 6 if number else 0)
    room = CARD[0] - start - 8
    if owners:
        text = fitted(" ".join(scene.names[r] for r in owners), room - measure(new, "s9 bold"), "bold")
        yield Mark(f"{id}.who", (x + CARD[0] - 8, y + 16), f"text bold end hue {hue}", text)
    else:
        room -= measure(new, "s9 bold")
        text = fitted((status, status.removeprefix("free, ").removeprefix("evicted ")), room, "s10")
        yield Mark(f"{id}.who", (x + CARD[0] - 8, y + 16), "text s10 soft end", text)
    yield Mark(f"{id}.t", (x + 8, y + 33), "text s10", _preview(scene.words(prefix.token_ids)))
    if new:
        yield Mark(f"{id}.new", (x - 2, y - 2, CARD[0] + 4, CARD[1] + 4), "over round")
        yield Mark(f"{id}.word", (x + start + 2, y + 16), "text s9 bold", new)
    if walked:
        yield Mark(f"{id}.walked", (x + 8, y + CARD[1] - 6, CARD[0] - 16, 3), "cell sharp ink")


def _status(scene: Scene, block_id: int | None, owners: Sequence[str], turn: Mapping[int, int], copies: int) -> str:
    if owners:
        return f"held by {listed(scene.names[r] for r in owners)}"
    if block_id in turn:
        return "evicted next" if turn[block_id] == 0 else f"free, {ordinal(turn[block_id] + 1)}"
    return plural(copies, "block") if copies > 1 else "cached"


# ------------------------------------------------------------------------------------------- the queue and the cost


def _queue(scene: Scene) -> Iterator[Mark]:
    state = scene.state
    yield Mark("queue.title", (LEFT, QUEUE_TOP - 8), "text s11 bold soft", "FREE QUEUE")
    if scene.attached:
        text = "A server tells the tokens it cached, not which block they are in: no numbers, no owners, no queue here."
        yield Mark("queue.what", (LEFT, QUEUE_TOP + 16), "text s12 soft", text)
        return
    what = "who is handed out next loses its hash (◆)"
    if state.has_own_order:
        what = f"in the pool's own order; {what}"
    yield Mark("queue.what", (LEFT + 92, QUEUE_TOP - 8), "text s11 soft", what)
    if not state.free:
        yield Mark("queue.none", (LEFT, QUEUE_TOP + 16), "text s12 soft", "No block is free.")
    for i, block_id in enumerate(state.free[:11]):
        x, cached = LEFT + i * 46, block_id in state.cached
        tip = f"#{block_id}, {'next' if i == 0 else ordinal(i + 1)}, " + ("has a hash" if cached else "has no hash")
        yield Mark(f"queue.{block_id}", (x, QUEUE_TOP, 40, 26), f"card {'kept' if cached else 'free'} tiny", tip=tip)
        text = f"#{block_id}" + ("◆" if cached else "")
        yield Mark(
            f"queue.{block_id}.n", (x + 20, QUEUE_TOP + 17), f"text s11 mid {'bold' if i == 0 else ''}".rstrip(), text
        )
    if len(state.free) > 11:
        yield Mark("queue.more", (LEFT + 11 * 46, QUEUE_TOP + 17), "text s11 soft", f"+ {len(state.free) - 11:,}")


def _costs(scene: Scene) -> Iterator[Mark]:
    """What the last prompts came to: tokens found, tokens computed, time to the first token."""
    if scene.attached:
        return
    columns = {"prompt": 648.0, "found": 694.0, "computed": 760.0, "first token": RIGHT}
    steps = "From its arrival to its first token, in steps that ran the model, with all else that these steps did."
    for text, x in columns.items():
        once = text == "first token"  # one measurement: less to compute may still take longer
        label, tip = ("first token, one noisy timing", steps) if once else (text, "")
        yield Mark(f"cost.{text}", (x, QUEUE_TOP - 8), "text s10 soft end", label, tip)
    if len(scene.costs) > 3:
        yield Mark("cost.last", (604, QUEUE_TOP - 8), "text s10 soft end", "the last 3:")
    for i, cost in enumerate(scene.costs[-3:]):
        y, name = QUEUE_TOP + 6 + i * 14, scene.names[cost.request_id]
        yield Mark(f"cost.{i}.who", (604, y), f"text s12 bold end hue c{scene.hues[cost.request_id]}", name)
        time = f"{cost.seconds * 1000:,.0f} ms" if cost.seconds is not None else "–"
        values = (str(cost.num_prompt), str(cost.num_found), str(cost.num_prompt - cost.num_found), time)
        special = {"found": "mono s11 bold end", "first token": "mono s11 soft end"}
        yield from row(f"cost.{i}", y, columns, values, special=special)


def strip(cached: Sequence[int], num_columns: int) -> Strip:
    """How many blocks have a hash, step by step."""
    time = Strip(LEFT, STRIP[0], RIGHT - LEFT, STRIP[1] - STRIP[0], num_columns)
    most = Mark("time.most", (LEFT + 244, time.top - 10), "text s11 soft", f"· tallest bar: {max([1, *cached])}")
    time.marks = [*time_bars(time, cached), most]
    return time


def _words(scene: Scene, step: str) -> Iterator[Mark]:
    for shorter in (0, 1, 2):
        text = story(scene, shorter)
        lines = wrapped(text, RIGHT - LEFT, "s12", 2)
        if " ".join(lines) == text:
            break
    for i, line in enumerate(lines):
        yield Mark("story.rest" if i else "story", (LEFT, STORY[i]), "text s12", line, tip=text)
    yield Mark("step", (RIGHT, 472), "text s12 soft end", step)
    yield Mark("time.title", (LEFT, 472), "text s11 bold soft", "BLOCKS WITH A HASH")
    yield Mark("time.what", (LEFT + 154, 472), "text s11 soft", "after each step")
