"""The prefix lab: the learner's prompt block by block, the tree of hashed blocks that it walks, who is evicted next.

``marks(scene)`` is a pure function of memory at one moment and of the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pagedlab.trace import MemoryState
from pagedlab.trace import events as ev
from pagedlab.viz import labels
from pagedlab.viz.labels import fit, listed, ordinal, plural, width
from pagedlab.viz.marks import Mark
from pagedlab.viz.narrator import narrate
from pagedlab.viz.prefix_walk import Lookup, Node, block_ids, num_hit, place_tree

SIZE = (960.0, 524.0)
LEFT, RIGHT = 24.0, 936.0
PROMPT_TOP, CARD, GAP = 76.0, (104.0, 44.0), 12.0
TREE_TOP, ROWS, COLUMNS = 172.0, 4, 8
QUEUE_TOP = 386.0
STRIP = (468.0, 512.0)


@dataclass
class Scene:
    """What one picture depends on. ``lookups``: the prompt's blocks; of these ``looked_up`` have been looked up so far.
    ``costs``: of each request that came in."""

    state: MemoryState
    events: Sequence[ev.Event]
    lookups: list[Lookup]
    looked_up: int
    badge: str
    live: bool
    attached: bool
    costs: list[Cost]
    pieces: Mapping[int, str]  # a token's text, where some request has told it
    names: dict[str, str] = field(init=False)
    hues: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.names = labels.names(self.state.requests)
        self.hues = labels.hues(self.state.requests)

    def words(self, token_ids: Sequence[int]) -> str:
        """The tokens' text, with a sign for a space at either end; their numbers where a text is not known."""
        if not all(t in self.pieces for t in token_ids):
            return " ".join(map(str, token_ids))
        text = "".join(self.pieces[t] for t in token_ids)
        inner = text.strip(" ")
        before, _, after = text.partition(inner) if inner else (text, "", "")
        inner = labels.printable(inner.replace("\\n", "↵").replace("\n", "↵").replace("\t", "⇥"))
        return "␣" * len(before) + inner + "␣" * len(after)

    @property
    def ended(self) -> bool:
        """Has the walk come to its end?"""
        return all(lookup.outcome not in ("hit", "last", "miss") for lookup in self.lookups[self.looked_up :])


@dataclass(frozen=True)
class Cost:
    """What the prompt of one request came to: ``seconds`` from its arrival to its first token, in steps that ran the
    model; None where it has none yet, or where nobody measured it."""

    request_id: str
    num_prompt: int
    num_found: int
    seconds: float | None


def headline(scene: Scene) -> str:
    if not scene.lookups:
        n = len(scene.state.prefixes)
        return f"{plural(n, 'full block')} can be found by {'its' if n == 1 else 'their'} tokens"
    done = scene.lookups[: scene.looked_up]
    hit, total = num_hit(done), sum(len(lookup.token_ids) for lookup in scene.lookups)
    if not scene.ended:
        now = done[-1] if done else None
        said = "" if now is None else f"Block {now.logical}: {_verdict(now, scene)}. "
        return f"{said}{plural(hit, 'token')} found so far"
    if not hit:
        return f"Nothing found: all {plural(total, 'token')} have to be computed"
    return f"{hit} of {total} tokens found, {total - hit} to be computed"


def title(scene: Scene, step: str) -> str:
    return f"Prefix hits, {step}. {headline(scene)}"


def story(scene: Scene) -> str:
    """What the step did."""
    if scene.attached:
        stored = sum(isinstance(e, ev.PrefixStored) for e in scene.events)
        removed = sum(isinstance(e, ev.PrefixRemoved) for e in scene.events)
        missed = sum(e.num_missed for e in scene.events if isinstance(e, ev.BatchReceived))
        said = f"The server cached {plural(stored, 'block')} and evicted {removed or 'none'}."
        batches = "1 batch" if missed == 1 else f"{missed} batches"
        return f"{said} {batches} never came: the tree may be wrong." if missed else said
    return " ".join(narrate(scene.events, scene.state).values()) or "This step changed nothing in memory."


def marks(scene: Scene, step: str) -> list[Mark]:
    return [*_header(scene), *_prompt(scene), *_tree(scene), *_queue(scene), *_costs(scene), *_words(scene, step)]


def _header(scene: Scene) -> Iterator[Mark]:
    badge = fit(scene.badge, 300, 11.5)
    w = width(badge, 11.5) + 30
    yield Mark("head.line", (LEFT, 37), "text s18 semi", fit(headline(scene), RIGHT - LEFT - w - 16, 18, bold=True))
    yield Mark("badge", (RIGHT - w, 21, w, 22), "card badge", tip="What produced this picture")
    yield Mark("badge.light", (RIGHT - w + 10, 28, 8, 8), "cell light" if scene.live else "cell still")
    yield Mark("badge.text", (RIGHT - w + 24, 36), "text soft", badge)


# ------------------------------------------------------------------------------------------------------ the prompt


def _prompt(scene: Scene) -> Iterator[Mark]:
    yield Mark("prompt.title", (LEFT, 66), "text s11 bold soft", "YOUR PROMPT")
    what = "cut into blocks; each is looked up by its tokens and all before them" if scene.lookups else "type one below"
    yield Mark("prompt.what", (LEFT + 104, 66), "text s11 soft", what)
    for lookup in scene.lookups[:COLUMNS]:
        yield from _lookup(scene, lookup)
    if len(scene.lookups) > COLUMNS:
        yield Mark("prompt.more", (RIGHT, 66), "text s11 soft end", f"+ {len(scene.lookups) - COLUMNS} blocks more")


def _lookup(scene: Scene, lookup: Lookup) -> Iterator[Mark]:
    """A chip: choosing it walks that far."""
    x, y = LEFT + lookup.logical * (CARD[0] + GAP), PROMPT_TOP
    i, done = lookup.logical, lookup.logical < scene.looked_up
    now = lookup.logical == scene.looked_up - 1
    verdict = _verdict(lookup, scene) if done else "not looked up yet"
    cls = (
        "card chip plain block"
        + (" found" if done and lookup.outcome in ("hit", "last") else "")
        + (" now" if now else "")
    )
    yield Mark(
        f"chip.{i + 1}", (x, y, *CARD), cls, tip=f"Walk to block {i}: {scene.words(lookup.token_ids)}. {verdict}"
    )
    yield Mark(f"prompt.{i}.n", (x + 8, y + 16), "text mono s12 bold", str(i))
    sign = {"hit": "✓", "last": "↻", "miss": "✗", "partial": "–", "after": "–"}[lookup.outcome] if done else "?"
    if done and lookup.block_id is not None:
        sign += f" #{lookup.block_id}"
    yield Mark(f"prompt.{i}.sign", (x + CARD[0] - 8, y + 16), "text mono s12 bold end", sign)
    text = fit(scene.words(lookup.token_ids), CARD[0] - 14, 10.5)
    yield Mark(f"prompt.{i}.t", (x + 8, y + 35), "text s10", text)
    yield Mark(
        f"prompt.{i}.v",
        (x + CARD[0] / 2, y + 58),
        f"text s10 mid {'bold' if now else 'soft'}",
        fit(_short(lookup) if done else "", CARD[0] + 8, 10.5, bold=now),
    )


def _short(lookup: Lookup) -> str:
    if lookup.outcome == "hit":
        return "hit, revived" if lookup.revives else "hit"
    return {"last": "computed again", "miss": "miss: stop", "partial": "not full", "after": "not looked up"}[
        lookup.outcome
    ]


def _verdict(lookup: Lookup, scene: Scene) -> str:
    where = f"in #{lookup.block_id}" if lookup.block_id is not None else "in memory"
    match lookup.outcome:
        case "hit" if lookup.revives:
            return f"found {where}, out of the free queue"
        case "hit" if lookup.block_id is not None:
            owners = listed(scene.names[r] for r in scene.state.owners(lookup.block_id))
            return f"found {where}, shared with {owners}"
        case "hit":
            return f"found {where}"
        case "last":
            return f"{where}, but the last token's logits are needed: computed again"
        case "miss":
            return "not in memory, the walk ends"
        case "partial":
            return "not full, so it has no hash"
    return "behind the first miss: not looked up"


# -------------------------------------------------------------------------------------------------------- the tree


def _tree(scene: Scene) -> Iterator[Mark]:
    state = scene.state
    path = [lookup.block_hash for lookup in scene.lookups if lookup.block_hash]
    nodes, left = place_tree(state, ROWS, COLUMNS, path)
    yield Mark("tree.title", (LEFT, 158), "text s11 bold soft", "HASHED BLOCKS")
    what = "each behind the block before it; column = logical block"
    yield Mark("tree.what", (LEFT + 122, 158), "text s11 soft", what)
    if left:
        yield Mark("tree.more", (RIGHT, 158), "text s11 soft end", f"+ {plural(left, 'block')} more")
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
    start = 8 + (width(number, 12, mono=True) + 6 if number else 0)
    room = CARD[0] - start - 8
    if owners:
        text = fit(" ".join(scene.names[r] for r in owners), room - width(new, 9.5, bold=True), 11.5, bold=True)
        yield Mark(f"{id}.who", (x + CARD[0] - 8, y + 16), f"text bold end hue {hue}", text)
    else:
        room -= width(new, 9.5, bold=True)
        text = fit(status.removeprefix("free, ") if new else status, room, 10.5)
        yield Mark(f"{id}.who", (x + CARD[0] - 8, y + 16), "text s10 soft end", text)
    yield Mark(f"{id}.t", (x + 8, y + 33), "text s10", fit(scene.words(prefix.token_ids), CARD[0] - 14, 10.5))
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
    yield Mark("queue.what", (LEFT + 92, QUEUE_TOP - 8), "text s11 soft", "who is handed out next loses its hash (◆)")
    if not state.free:
        yield Mark("queue.none", (LEFT, QUEUE_TOP + 16), "text s12 soft", "No block is free.")
    for i, block_id in enumerate(state.free[:12]):
        x, cached = LEFT + i * 46, block_id in state.cached
        tip = f"#{block_id}, {'next' if i == 0 else ordinal(i + 1)}, " + ("has a hash" if cached else "has no hash")
        yield Mark(f"queue.{block_id}", (x, QUEUE_TOP, 40, 26), f"card {'kept' if cached else 'free'} tiny", tip=tip)
        text = f"#{block_id}" + ("◆" if cached else "")
        yield Mark(
            f"queue.{block_id}.n", (x + 20, QUEUE_TOP + 17), f"text s11 mid {'bold' if i == 0 else ''}".rstrip(), text
        )
    if len(state.free) > 12:
        yield Mark("queue.more", (LEFT + 12 * 46 + 4, QUEUE_TOP + 17), "text s11 soft", f"+ {len(state.free) - 12}")


def _costs(scene: Scene) -> Iterator[Mark]:
    """What the last prompts came to: tokens found, tokens computed, time to the first token."""
    if scene.attached:
        return
    columns = ((700.0, "prompt"), (760.0, "found"), (832.0, "computed"), (RIGHT, "first token"))
    for x, text in columns:
        yield Mark(f"cost.{text}", (x, QUEUE_TOP - 8), "text s10 soft end", text)
    for i, cost in enumerate(scene.costs[-3:]):
        y, name = QUEUE_TOP + 7 + i * 15, scene.names[cost.request_id]
        yield Mark(f"cost.{i}.who", (650, y), f"text s12 bold end hue c{scene.hues[cost.request_id]}", name)
        time = f"{cost.seconds * 1000:,.0f} ms" if cost.seconds is not None else "–"
        values = (str(cost.num_prompt), str(cost.num_found), str(cost.num_prompt - cost.num_found), time)
        for (x, text), value in zip(columns, values, strict=True):
            yield Mark(f"cost.{i}.{text}", (x, y), f"text mono s11 end{' bold' if text == 'found' else ''}", value)


def _words(scene: Scene, step: str) -> Iterator[Mark]:
    told = story(scene)
    yield Mark("story", (LEFT, 438), "text s12", fit(told, RIGHT - LEFT, 12), tip=told)
    yield Mark("step", (RIGHT, 456), "text s12 soft end", step)
    yield Mark("time.title", (LEFT, 456), "text s11 bold soft", "BLOCKS WITH A HASH")
    yield Mark("time.what", (LEFT + 154, 456), "text s11 soft", "after each step")
