"""What a step did, in words: a pure function of its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pagedlab.trace import MemoryState
from pagedlab.trace import events as ev
from pagedlab.viz.kit.labels import listed, names, number, ordinal, plural, quoted


@dataclass
class _Part:
    """One request's part in the step."""

    arrived: ev.RequestArrived | None = None
    queued: bool = False
    refused: str = ""
    hits: list[int] = field(default_factory=list)
    revived: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    evicted: list[int] = field(default_factory=list)
    written: list[ev.SlotWritten] = field(default_factory=list)
    no_room: ev.AllocationFailed | None = None
    preempted: ev.RequestPreempted | None = None
    swapped_out: ev.BlocksSwappedOut | None = None
    swapped_in: ev.BlocksSwappedIn | None = None
    copies: list[ev.BlockCopied] = field(default_factory=list)
    parent: str | None = None  # whom it forked from
    reserved: ev.RegionReserved | None = None
    released: ev.RegionReleased | None = None
    finished: str = ""
    freed: ev.BlocksFreed | None = None
    passed: list[int] = field(default_factory=list)  # blocks that have fallen out of a window
    elsewhere: list[int] = field(default_factory=list)  # blocks written in other groups of layers than the first
    edited: ev.TableEdited | None = None
    wrote_over: ev.SlotWritten | None = None  # another request's, in the same slot and step
    lost: ev.SlotWritten | None = None  # what another request wrote over this one's
    sharers: dict[int, int] = field(default_factory=dict)  # block copied from -> how many held it before the step


def narrate(events: Sequence[ev.Event], state: MemoryState, selected: str | None = None) -> dict[str | None, str]:
    """A sentence or two for each request that had a part in ``events`` (and for None: what concerns no request).

    ``state``: memory after the events. Of ``selected`` all is told, of the others what is needed. Requests come in the
    order of their first event. Who was preempted is told in front of what ``selected`` did: it is the reason.
    """
    parts, general = _read(events)
    for part in parts.values():
        part.sharers = {e.from_block_id: _sharers(e.from_block_id, parts, state) for e in part.copies}
    short = names(state.requests)
    sentences: dict[str | None, str] = {
        r: text for r, part in parts.items() if (text := _tell(short[r], part, state, r, r != selected))
    }
    if selected in sentences:
        sentences[selected] = " ".join([*_made_room(parts, state, selected), sentences[selected]])
    if general:
        sentences[None] = " ".join(general)
    return sentences


def in_brief(events: Sequence[ev.Event], state: MemoryState, but: str | None = None, shorter: int = 0) -> str:
    """The step in a few sentences: those who did the same share one, who made room comes first. ``but``: whom to leave
    out, with those of whom ``narrate`` tells in front of it. ``shorter``: 1 for without the blocks that several took or
    gave back, 2 for as few words as can be, 3 for how many they are."""
    parts, sentences = _read(events)
    short, apart = names(state.requests), parts.pop(but, None)
    gone = [short[r] for r, part in parts.items() if part.preempted]
    if shorter == 3:
        sentences = [f"{listed(gone)} had to make room: no free block was left."] if gone else []
        if others := len(parts) - len(gone):
            sentences.append(f"{plural(others, 'other request')} took part in this step, too.")
        return " ".join(sentences)
    if not (apart and _tell(short[but], apart, state, but, brief=False)):
        sentences += _made_room(parts, state)
    parts = {r: part for r, part in parts.items() if not part.preempted}
    alike = Counter(kind for part in parts.values() for kind in _kinds(part))
    groups: dict[tuple[str, Any], list[tuple[str, list[int]]]] = {}
    for request_id, part in parts.items():
        alone = replace(part)
        for kind, blocks in _kinds(part).items():
            if shorter >= 2 or (alike[kind] > 1 and kind[0] != "tokens"):
                groups.setdefault(kind, []).append((short[request_id], blocks))
                _drop(alone, kind[0])
        if text := _tell(short[request_id], alone, state, request_id, brief=True):
            sentences.append(text)
    for kind in sorted(groups, key=lambda kind: _ORDER.index(kind[0])):
        who = [name for name, _ in groups[kind]]
        blocks = [b for _, of in groups[kind] for b in of]
        text = _together(kind, who, blocks, short, numbers=shorter == 0)
        if kind[0] == "copy" and shorter == 0 and len(keeps := state.owners(kind[1])) == 1:
            text = f"{text[:-1]}; {short[keeps[0]]} kept it."
        sentences.append(text)
    return " ".join(sentences)


_ORDER = ("hits", "room", "waits", "fork", "copy", "tokens", "new", "token", "lost", "done")  # as it is told


def _kinds(part: _Part) -> dict[tuple[str, Any], list[int]]:
    """What this request did that others may have done as well, and the blocks that it concerns."""
    kinds: dict[tuple[str, Any], list[int]] = {}
    if part.evicted:
        kinds["lost", None] = part.evicted
    if part.refused or part.preempted:
        return kinds
    if part.hits:
        kinds["hits", None] = part.hits
    if part.arrived and not part.written:
        kinds["waits", None] = []
    elif part.no_room and not part.written:
        kinds["room", None] = []
    if part.parent is not None:
        kinds["fork", part.parent] = []
    if len(part.copies) == 1:
        kinds["copy", part.copies[0].from_block_id] = [part.copies[0].to_block_id]
    if len(part.written) == 1 and not (part.reserved or part.wrote_over or part.lost):
        block = part.written[0].block_id
        kinds["new" if part.new == [block] else "token", None] = [block]
    if len(part.written) > 1 and not (part.reserved or part.wrote_over or part.lost):
        kinds["tokens", None] = [len(part.written)]
    if part.finished and part.freed and part.freed.pool == "gpu":
        free = {*part.freed.to_head, *part.freed.to_tail}
        kinds["done", None] = [b for b in part.freed.block_ids if b in free]
    return kinds


def _drop(part: _Part, kind: str) -> None:
    """Do not tell this again of the request alone."""
    match kind:
        case "hits":
            part.hits = []
        case "waits":
            part.arrived = part.no_room = None
        case "room":
            part.no_room = None
        case "fork":
            part.parent = None
        case "copy":
            part.copies = []
        case "new" | "token" | "tokens":
            part.written, part.arrived, part.no_room = [], None, None
        case "lost":
            part.evicted = []
        case "done":
            part.finished = ""


def _together(kind: tuple[str, Any], who: list[str], blocks: list[int], short: dict[str, str], numbers: bool) -> str:
    """One sentence for all of them."""
    them, each, one = listed(who), _blocks(blocks) if numbers else "", len(who) == 1
    match kind:
        case "hits", _:
            if not numbers:
                return f"{them} found tokens in memory."
            return f"{them} found their first tokens in memory: {_blocks(list(dict.fromkeys(blocks)))}."
        case "room", _:
            return f"{them} {'has' if one else 'have'} to wait: too few blocks are free."
        case "waits", _:
            return f"{them} arrived and {'waits' if one else 'wait'}."
        case "fork", parent:
            return f"{them} forked from {short[parent]} and {'shares' if one else 'share'} all its blocks."
        case "copy", block:
            return f"{them} got {'a copy' if one else 'copies'} of #{block}{f': {each}' if each else ''}."
        case "new", _:
            new = f"new {each}" if each else "a new block" if one else "new blocks"
            return f"{them} wrote a token{'' if one else ' each'} into {new}."
        case "token", _:
            return f"{them} wrote a token{'' if one else ' each'}{f' into {each}' if each else ''}."
        case "tokens", _:
            return f"{them} wrote {listed(map(str, blocks))} tokens."
        case "lost", _:
            return f"The prefix cache lost {each or plural(len(blocks), 'block')}."
    return f"{them} {'is' if one else 'are'} finished{f': {each} are free again' if len(blocks) > 1 and each else ''}."


def _read(events: Sequence[ev.Event]) -> tuple[dict[str, _Part], list[str]]:
    """Each request's part in the step, in the order of their first event; and what concerns no request."""
    parts: dict[str, _Part] = {}
    evicted: list[int] = []
    general = []
    reordered: list[ev.FreeQueueReordered] = []
    written: dict[tuple[int, int], ev.SlotWritten] = {}
    for e in events:
        if isinstance(e, ev.BlockEvicted):
            evicted.append(e.block_id)  # the next allocation is the reason
        elif isinstance(e, ev.PoolFound):  # what was before is void: some of it may be of requests that are gone
            parts, evicted, reordered, written = {}, [], [], {}
            missed = f"{plural(e.num_missed, 'message')} never came; memory" if e.num_missed else "Memory"
            general = [f"{missed} was found like this, in mid-run."]
        elif isinstance(e, ev.PrefixCacheReset):
            general.append("The prefix cache was reset: no block can be found by its content any more.")
        elif isinstance(e, ev.FreeQueueReordered):
            reordered.append(e)
        elif isinstance(e, ev.CopyOnWriteSwitched):
            off = "off: whoever writes into a shared block overwrites what the others have there"
            general.append(f"You switched copy-on-write {'on again' if e.on else off}.")
        for moved in getattr(e, "request_ids", ()):  # a whole group is swapped at once
            _take(parts.setdefault(moved, _Part()), e)
        if isinstance(e, ev.RequestForked):
            parts.setdefault(e.child_id, _Part()).parent = e.request_id
            continue
        request_id = getattr(e, "request_id", None)
        if request_id is None:
            continue
        part = parts.setdefault(request_id, _Part())
        if getattr(e, "group", 0):  # what the first group of layers does is told of, and of the others what differs
            _take_of_another_group(part, e)
            continue
        if isinstance(e, ev.SlotWritten):
            before = written.get((e.block_id, e.offset))
            if before and before.request_id != request_id:  # only after an edit by hand
                part.wrote_over, parts[before.request_id].lost = before, e
            written[e.block_id, e.offset] = e
        if isinstance(e, ev.BlocksAllocated):
            part.new += e.block_ids
            part.evicted += evicted
            evicted = []
        else:
            _take(part, e)
    if reordered:
        general.append(_own_order(reordered))
    return parts, general


def _own_order(events: Sequence[ev.FreeQueueReordered]) -> str:
    moved = list(dict.fromkeys(block_id for e in events for block_id in e.block_ids))
    if len(moved) == 1:
        place = ordinal(events[-1].places[0] + 1)
        return f"The pool hands out its free blocks in an order of its own: it put #{moved[0]} in the {place} place."
    return f"The pool hands out its free blocks in an order of its own: it moved {_blocks(moved)}."


def _take(part: _Part, e: ev.Event) -> None:
    match e:
        case ev.RequestArrived():
            part.arrived = e
        case ev.RequestQueued():
            part.queued = True
        case ev.RequestRefused():
            part.refused = e.reason
        case ev.BlockTouched():
            part.hits.append(e.block_id)
            if e.revived:
                part.revived.append(e.block_id)
        case ev.SlotWritten():
            part.written.append(e)
        case ev.AllocationFailed():
            part.no_room = e
        case ev.RequestPreempted():
            part.preempted = e
        case ev.BlocksSwappedOut():
            part.swapped_out = e
        case ev.BlocksSwappedIn():
            part.swapped_in = e
        case ev.BlockCopied():
            part.copies.append(e)
        case ev.RegionReserved():
            part.reserved = e
        case ev.RegionReleased():
            part.released = e
        case ev.RequestFinished():
            part.finished = e.reason
        case ev.BlocksFreed():
            part.freed = e
        case ev.BlocksOutOfWindow():
            part.passed += e.block_ids
        case ev.TableEdited():
            part.edited = e


def _take_of_another_group(part: _Part, e: ev.Event) -> None:
    match e:
        case ev.SlotWritten():
            part.elsewhere += [e.block_id] if e.block_id not in part.elsewhere else []
        case ev.BlocksOutOfWindow():
            part.passed += e.block_ids
        case ev.BlocksFreed() if part.freed:
            of_both = {n: getattr(part.freed, n) + getattr(e, n) for n in ("block_ids", "to_head", "to_tail")}
            part.freed = replace(part.freed, **of_both, ref_cnt=())


def _tell(name: str, part: _Part, state: MemoryState, request_id: str, brief: bool) -> str:
    sentences = []
    if part.refused:
        return f"{name} was refused: {part.refused}"
    if part.edited:
        e = part.edited
        sentences.append(
            f"You pointed {name}'s logical block {e.logical_block} at #{e.new_block_id} instead of #{e.old_block_id}."
        )
    if part.arrived and not part.written:
        sentences.append(f"{name} arrived with {plural(len(part.arrived.token_ids), 'token')} and waits.")
    if part.swapped_in:
        e = part.swapped_in
        into = "" if brief else f" from the CPU's memory, into {_blocks(e.gpu_block_ids)}"
        sentences.append(f"{name} came back{into}.")
    if part.parent is not None:
        sentences.append(f"{name} forked from {names(state.requests)[part.parent]} and shares all its blocks.")
    sentences += [_copy(name, e, part.sharers.get(e.from_block_id, 2), brief) for e in part.copies]
    if part.reserved:
        e = part.reserved
        sentences.append(
            f"{name} got slots {e.start} to {e.start + e.length - 1} in one piece; it will need {e.num_needed}."
        )
    if part.hits:
        sentences.append(_hits(name, part, state))
    if part.written:
        short = brief or bool(part.copies)
        sentences.append(_briefly(name, part) if short else _written(name, part, state, request_id))
        if part.elsewhere and not short:
            sentences.append(f"Other layers have it in {_blocks(part.elsewhere)}.")
    if part.passed:
        sentences.append(_passed(name, part, brief))
    if part.wrote_over:
        e = part.wrote_over
        sentences.append(f"That was {names(state.requests)[e.request_id]}'s slot: its {quoted(e.text)} is overwritten.")
    if part.lost:
        e = part.lost
        other = names(state.requests)[e.request_id]
        sentences.append(
            f"Then {other} wrote {quoted(e.text)} over it: from now on {name} reads {other}'s K and V there."
        )
    if part.evicted:
        sentences.append(f"What the prefix cache kept in {_blocks(part.evicted)} is lost.")
    if part.preempted:
        back = _gave_back(part.freed) if part.freed else ""
        if part.preempted.how == "swap":
            out = part.swapped_out
            if brief:
                sentences.append(f"{name} was swapped out.")
            else:
                who = listed(names(state.requests)[r] for r in out.request_ids)
                count = plural(len(out.gpu_block_ids), "block")
                sentences.append(f"No free block was left: the {count} of {who} were moved to the CPU's memory.")
        else:
            sentences.append(
                f"No free block was left: {name} was preempted{back} and waits again at the head of the queue."
            )
            if part.preempted.reason:
                sentences.append(f"Not swapped: {part.preempted.reason}.".replace("..", "."))
    elif part.finished:
        reason = {
            "stop": "the model ended its text",
            "length": "all its tokens are there",
            "abort": "stopped from outside",
            "dropped": "its beam fell behind the others",
        }
        back = ""
        if part.freed:
            free = [b for b in part.freed.block_ids if b in {*part.freed.to_head, *part.freed.to_tail}]
            shared = [b for b in part.freed.block_ids if b not in free]
            pool = " of the CPU's memory" if part.freed.pool == "cpu" else ""
            are = "is" if len(free) == 1 else "are"
            back = f": {_blocks(free)}{pool} {are} free again" if free else ""
            back += f"{', ' if free else ': '}others still hold {_blocks(shared)}" if shared else ""
        elif part.released:
            back = f": slots {part.released.start} to {part.released.start + part.released.length - 1} are a hole again"
        why = "" if brief else f" ({reason.get(part.finished, part.finished)})"
        sentences.append(f"{name} is finished{why}{back}.")
    elif part.no_room and not part.written:
        free = plural(part.no_room.num_free_blocks, "free block") if part.no_room.num_free_blocks else ""
        need = f"need more than the {free}" if free else "need a block and none is free"
        sentences.append(f"{name} has to wait: its {plural(state.requests[request_id].num_tokens, 'token')} {need}.")
    return " ".join(sentences)


def _passed(name: str, part: _Part, brief: bool) -> str:
    if brief:
        return f"{_blocks(part.passed)} fell out of {name}'s window."
    one = len(part.passed) == 1
    where = "the null block stands in its place" if one else "null blocks stand in their places"
    return f"{_blocks(part.passed)} fell out of the window and went back to the free queue: {where}."


def _made_room(parts: dict[str, _Part], state: MemoryState, but: str | None = None) -> list[str]:
    """Who was preempted, but for ``but``: a sentence for each, or one for all who did nothing else in this step."""
    short = names(state.requests)
    gone = {r: part for r, part in parts.items() if part.preempted and r != but}
    sentences = {r: _tell(short[r], part, state, r, brief=True) for r, part in gone.items()}
    alike = [r for r in gone if sentences[r].startswith("No free block was left: ") and not gone[r].preempted.reason]
    if len(alike) > 1:
        back = _gave_back(*(gone[r].freed for r in alike if gone[r].freed))
        who = listed(short[r] for r in alike)
        sentences[alike[0]] = (
            f"No free block was left: {who} were preempted{back} and wait again at the head of the queue."
        )
        sentences = {r: text for r, text in sentences.items() if r not in alike[1:]}
    return list(sentences.values())


def _gave_back(*freed: ev.BlocksFreed) -> str:
    """What others still hold is let go of, and not free."""
    free = {b for e in freed for b in (*e.to_head, *e.to_tail)}
    blocks = list(dict.fromkeys(b for e in freed for b in e.block_ids))
    back, shared = ([b for b in blocks if (b in free) is own] for own in (True, False))
    text = f", gave back {_blocks(back)}" if back else ""
    return f"{text}, let go of {_blocks(shared)}, which others hold," if shared else text


def _hits(name: str, part: _Part, state: MemoryState) -> str:
    tokens = len(part.hits) * state.block_size
    revived = (
        ""
        if not part.revived
        else " (out of the free queue)"
        if part.revived == part.hits
        else f" ({_blocks(part.revived)} out of the free queue)"
    )
    return f"{name} found its first {tokens} tokens in memory: {_blocks(part.hits)}{revived}, nothing computed."


def _written(name: str, part: _Part, state: MemoryState, request_id: str) -> str:
    first, last = part.written[0], part.written[-1]
    count, size = len(part.written), state.block_size
    if part.reserved or request_id in state.regions:
        if count == 1:
            return f"{name} wrote {quoted(first.text)} into slot {first.block_id}."
        return f"{name} wrote {plural(count, 'token')} into slots {first.block_id} to {last.block_id}."
    prompt = state.requests[request_id].num_prompt_tokens
    if count == 1 and first.position >= prompt:
        if part.new:
            return (
                f"{name}'s last block was full, so it got #{first.block_id} from {_queue(state)}; "
                f"{quoted(first.text)} went there, at offset {first.offset}."
            )
        room = size - 1 - first.offset
        left = (
            f"{plural(room, 'slot')} left, so no block was asked for"
            if room
            else "Now the block is full (◆: others can find it by its hash); no block was asked for yet"
            if first.block_id in state.cached
            else "Now the block is full; no block was asked for yet"
        )
        return f"{name} wrote {quoted(first.text)} into #{first.block_id} at offset {first.offset}. {left}."
    what = "Prefill" if first.position < prompt else "Recomputing"
    chunk = last.position + 1 < prompt or (0 < first.position < prompt and not part.hits)
    of = (
        f"{number(count) if count < 4 else f'{count:,}'} more tokens"
        if chunk and first.position
        else plural(count, "token")
    )
    of = f"{of} of {name}'s {prompt:,}" if chunk else f"{name}'s {plural(count, 'token')}"
    blocks = list(dict.fromkeys(e.block_id for e in part.written))
    taken = f"the next free {'block' if len(blocks) == 1 else 'blocks'} " if blocks == part.new else ""
    into = f" into {taken}{_blocks(blocks)}"
    return f"{what} wrote {of}{into}: {_filled(last, size)}"


def _copy(name: str, e: ev.BlockCopied, sharers: int, brief: bool) -> str:
    if brief:
        return f"{name} got #{e.to_block_id}, a copy of #{e.from_block_id}."
    return (
        f"#{e.from_block_id} was shared by {number(sharers)}, so before it wrote {name} got a copy of it in "
        f"#{e.to_block_id} (copy-on-write)."
    )


def _sharers(block_id: int, parts: dict[str, _Part], state: MemoryState) -> int:
    """How many held a block before those copied it who did so in this step."""
    gone = {r for r, part in parts.items() if part.freed and block_id in part.freed.block_ids}
    copied = {r for r, part in parts.items() if any(e.from_block_id == block_id for e in part.copies)}
    return len({*state.owners(block_id), *gone, *copied})


def _queue(state: MemoryState) -> str:
    return "the top of the free stack" if state.era == "paper" else "the head of the free queue"


def _briefly(name: str, part: _Part) -> str:
    first = part.written[0]
    blocks = list(dict.fromkeys(e.block_id for e in part.written))
    what = quoted(first.text) if len(part.written) == 1 else plural(len(part.written), "token")
    return f"{name} wrote {what} into {'new ' if blocks == part.new else ''}{_blocks(blocks)}."


def _filled(last: ev.SlotWritten, size: int) -> str:
    full, rest = divmod(last.position + 1, size)
    blocks = "block" if full == 1 else "blocks"
    if rest == 0:
        return f"{number(full)} {blocks} full. No further block is reserved."
    if full == 0:
        return f"one block holds {number(rest)}. No further block is reserved."
    return f"{number(full)} {blocks} full, the last holds {number(rest)}. No further block is reserved."


def _blocks(block_ids: Sequence[int]) -> str:
    return listed([f"#{b}" for b in block_ids])


def next_step(state: MemoryState) -> str:
    """What the next step will do, for the button: named after it where one request runs."""
    if state.swapped:
        return "Run one step"
    if len(state.running) == 1 and not state.waiting:
        pending = len(state.requests[state.running[0]].pending)
        return "Decode one token" if pending <= 1 else "Write the next chunk"
    if len(state.waiting) == 1 and not state.running:
        name = names(state.requests)[state.waiting[0]]
        return f"Prefill {name}" if state.requests[state.waiting[0]].num_preemptions == 0 else f"Bring {name} back"
    return "Run one step"
