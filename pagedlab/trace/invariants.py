"""What must always hold of memory: rules, each with a name, and who finds the first one that is broken in a run.

``broken(state)`` looks at one moment. ``first_broken(trace)`` follows a run event by event and stops at the first
broken rule. In an honest run no rule is ever broken; an edit by hand breaks some, and so does a faulty engine.

======================  ================================================================================================
owners                  a block's ``ref_cnt``, the pool's own count, is the number of table entries that point at it
free                    what is free is in no table
lost                    what is in no table is free
null block              the null block is in no table, but where a window has passed
once                    a table has each block once
own tokens              at each position a request reads the token that it has there
idle                    a request that waits, or is over, holds no blocks
found                   what a lookup finds has a name, and holds the tokens of the request that looked it up
place                   a token is written where its request's table says
written once            no slot is written that holds a token already
names                   after a step, a block with a name is full, and holds the tokens that it is named after
reachable               a name is not forgotten before those behind it: a prefix is looked up from the left (where
                        layers look back only so far, it is from the right, and the rule does not hold)
history                 an event can follow on those before it
======================  ================================================================================================

(Before paging there are no tables, and nothing is said.)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Trace
from pagedlab.trace.replay import MemoryState


class Broken(NamedTuple):
    """A rule that does not hold: about which block or request (None: no single one), and one sentence."""

    rule: str
    sentence: str
    block_id: int | None = None
    request_id: str | None = None


@dataclass(frozen=True)
class Finding:
    """Where a run first went wrong. ``event``: the index of the event with which rules were broken (all in
    ``broken``); ``step``: in which step that was (0: before the first)."""

    event: int
    step: int
    broken: tuple[Broken, ...]

    @property
    def rule(self) -> str:
        return self.broken[0].rule

    @property
    def block_ids(self) -> tuple[int, ...]:
        """Blocks about which the rule is broken."""
        found = [b.block_id for b in self.broken if b.rule == self.rule and b.block_id is not None]
        return tuple(dict.fromkeys(found))

    def __str__(self) -> str:
        return f"step {self.step}: {self.broken[0].sentence}"


def broken(state: MemoryState) -> list[str]:
    """One sentence for each rule of a moment that does not hold; empty where all is well. The moment: between steps."""
    return [b.sentence for b in [*bookkeeping(state), *misreads(state)]]


def first_broken(trace: Trace) -> Finding | None:
    """Follow the run from its start. None where every rule held to its end."""
    state = MemoryState.of(trace.header["config"])
    if state.era == "contiguous":
        return None
    for i, event in enumerate(trace.events):
        found = breaks(state, event)
        try:
            state.apply(event)
        except ValueError as error:
            found.append(Broken("history", f"The {event.kind} event cannot follow on those before it: {error}"))
        else:
            found += _after(state, event)
        if found:
            return Finding(i, state.step, tuple(found))
    return None


# ------------------------------------------------------------------------------------------------------- of a moment

MOVES = (
    ev.BlocksAllocated,
    ev.BlockTouched,
    ev.BlocksFreed,
    ev.BlocksOutOfWindow,
    ev.RequestForked,
    ev.BlockCopied,
    ev.BlocksSwappedOut,
    ev.BlocksSwappedIn,
    ev.TableEdited,
)


def bookkeeping(state: MemoryState) -> list[Broken]:
    """Reference counts, free queue and tables against each other."""
    if state.era == "contiguous":
        return []
    found = []
    everybodys = [
        (group, name, table) for group, tables in enumerate(state.group_tables) for name, table in tables.items()
    ]
    held = Counter(block_id for _, _, table in everybodys for block_id in table)
    free = set(state.free)
    for block in range(state.num_blocks):
        owners, count = state.owners(block) if held[block] else [], state.ref_cnt[block]
        if block == 0 and state.has_null_block:
            readers = [name for group, name, table in everybodys if _reads_null(state, group, name, table)]
            if readers:
                found.append(Broken("null block", f"#0 is the null block, and {_and(readers)} reads it.", 0))
            continue
        if count != held[block]:
            sentence = f"#{block} has ref_cnt {count}, but {held[block]} table entries point at it."
            found.append(Broken("owners", sentence, block))
        if block in free and owners:
            sentence = f"#{block} is free, and {_and(owners)} still reads it: it will be handed out again."
            found.append(Broken("free", sentence, block, owners[0]))
        if block not in free and not owners and not count:
            found.append(Broken("lost", f"#{block} is neither free nor in a table: it is lost.", block))
    for _, request_id, table in everybodys:
        for block, times in Counter(table).items():
            if times > 1 and (block or not state.has_null_block):
                found.append(Broken("once", f"{request_id}'s table has #{block} {times} times.", block, request_id))
    return found


def _reads_null(state: MemoryState, group: int, request_id: str, table: list[int]) -> bool:
    """Does the null block stand where the request still looks? A window passes a block when a token is computed that
    does not look at it, nor does any behind it."""
    window, request = state.windows[group], state.requests[request_id]
    if window is None or 0 not in table:
        return 0 in table
    if request.status == "running":
        passed = max(0, request.num_computed_tokens - window + 1) // state.block_size
    else:  # a newcomer: its table is being filled with hits, and nothing of it counts as computed yet
        passed = next((logical for logical, block in enumerate(table) if block), 0)
    return 0 in table[passed:]


def misreads(state: MemoryState) -> list[Broken]:
    """Blocks in which a request finds something else than the tokens it has."""
    return [broken for group in range(len(state.windows)) for broken in _misreads_of_group(state, group)]


def _misreads_of_group(state: MemoryState, group: int) -> list[Broken]:
    found, size = [], state.block_size
    for request_id, table in state.group_tables[group].items():
        request = state.requests[request_id]
        for logical, block in enumerate(table):
            if block == 0 and state.windows[group] is not None:
                continue  # nothing is read there
            wrong, writers = 0, set()
            for offset in range(state.filled(request_id, logical)):
                position, slot = logical * size + offset, state.slots[block][offset]
                if slot is None or (slot.position, slot.token_id) != (position, request.token_ids[position]):
                    wrong += 1
                    writers.add("nobody" if slot is None else slot.request_id)
            if wrong:
                tokens = "1 token" if wrong == 1 else f"{wrong} tokens"
                sentence = (
                    f"{request_id} reads {tokens} in #{block} (its logical block {logical}) that are not its own: "
                    f"{_and(sorted(writers))} wrote there."
                )
                found.append(Broken("own tokens", sentence, block, request_id))
    return found


def idle(state: MemoryState) -> list[Broken]:
    """Requests that hold blocks though they do not run. The moment: between steps."""
    found = []
    holding = [(name, table) for tables in state.group_tables for name, table in tables.items()]
    for request_id, table in holding:
        status = state.requests[request_id].status
        if status != "running" and table:
            what = "over" if status == "finished" else status
            sentence = f"{request_id} is {what}, and holds {', '.join(f'#{b}' for b in table)}."
            found += [Broken("idle", sentence, block, request_id) for block in dict.fromkeys(table)]
    return found


def names(state: MemoryState) -> list[Broken]:
    """Blocks that can be found by a name, and do not hold what it says. The moment: between steps."""
    misnamed = []
    for block, block_hash in state.cached.items():
        tokens = state.prefixes[block_hash].token_ids
        if not tokens:  # found with a name, and nobody watched when it was filled
            continue
        found = [slot and slot.token_id for slot in state.slots[block]]
        if tuple(found) != tokens:
            empty = found.count(None)
            why = f"{empty} of its {len(found)} slots are empty" if empty else "it holds other tokens"
            misnamed.append(Broken("names", f"#{block} has a name and can be found by it, but {why}.", block))
    return misnamed


# ------------------------------------------------------------------------------------------------------- of an event


def breaks(state: MemoryState, event: ev.Event) -> list[Broken]:
    """Rules about what an event does (place, written once, found, reachable), held against the state before it."""
    match event:
        case ev.SlotWritten():
            return _write(state, event)
        case ev.PrefixLookedUp():
            return _lookup(state, event)
        case ev.BlockEvicted():
            return _unreachable(state, event)
    return []


def _after(state: MemoryState, event: ev.Event) -> list[Broken]:
    """Rules about the state that an event leaves behind."""
    if isinstance(event, MOVES):
        return bookkeeping(state)
    if isinstance(event, ev.StepEnded):
        return [*misreads(state), *names(state), *idle(state)]
    return []


def _write(state: MemoryState, event: ev.SlotWritten) -> list[Broken]:
    found, who, at = [], event.request_id, f"#{event.block_id}, offset {event.offset}"
    logical, offset = divmod(event.position, state.block_size)
    table = state.group_tables[event.group].get(who, [])
    if logical >= len(table) or (table[logical], offset) != (event.block_id, event.offset):
        right = f"#{table[logical]}, offset {offset}" if logical < len(table) else "no block for it"
        sentence = f"{who} writes its token {event.position} to {at}; its table says {right}."
        found.append(Broken("place", sentence, event.block_id, who))
    exists = 0 <= event.block_id < state.num_blocks and 0 <= event.offset < state.block_size
    there = state.slots[event.block_id][event.offset] if exists else None
    if there is not None:
        theirs = f"{there.request_id}'s token {there.position}"
        sentence = f"{who} writes its token {event.position} to {at}, where {theirs} is."
        found.append(Broken("written once", sentence, event.block_id, who))
    return found


def _lookup(state: MemoryState, event: ev.PrefixLookedUp) -> list[Broken]:
    found, who, size = [], event.request_id, state.block_size
    tokens = state.requests[who].token_ids
    for i, block in enumerate(event.block_ids):
        if block == 0 and state.windows[event.group] is not None:
            continue
        block_hash = state.cached.get(block)
        if block_hash is None:
            found.append(Broken("found", f"{who} finds #{block}, which has no name any more.", block, who))
        elif state.prefixes[block_hash].token_ids != tuple(tokens[i * size : (i + 1) * size]):
            sentence = f"{who} finds #{block} for its logical block {i}, but it is named after other tokens."
            found.append(Broken("found", sentence, block, who))
    return found


def _unreachable(state: MemoryState, event: ev.BlockEvicted) -> list[Broken]:
    name = state.prefixes.get(event.block_hash)
    if name is None or name.copies > 1:  # a name that nothing has (``apply`` says so), or that another block has too
        return []
    if state.windows[name.group] is not None:
        return []
    children = {h for h, prefix in state.prefixes.items() if prefix.parent == event.block_hash}
    blocks = sorted(block for block, block_hash in state.cached.items() if block_hash in children)
    if not blocks:
        return []
    sentence = (
        f"#{event.block_id} loses its name before {_and([f'#{b}' for b in blocks])}, which can never be found again."
    )
    return [Broken("reachable", sentence, event.block_id)]


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
