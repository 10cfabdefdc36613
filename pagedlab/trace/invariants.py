"""What must always hold of memory, as a pure function of its state. Only an edit by hand breaks it."""

from __future__ import annotations

from collections import Counter

from pagedlab.trace.replay import MemoryState


def broken(state: MemoryState) -> list[str]:
    """One sentence for each rule that does not hold; empty where all is well.

    The rules: a block's ``ref_cnt`` is the number of table entries that point at it; what is free is in no table, and
    what is in no table is free; the null block is in no table; a request's table has each block once; and at each
    position a request reads the token that it has there. (Before paging there are no tables, and nothing is said.)
    """
    if state.era == "contiguous":
        return []
    said = []
    held = Counter(block_id for table in state.tables.values() for block_id in table)
    free = set(state.free)
    for block_id in range(state.num_blocks):
        owners, count = state.owners(block_id) if held[block_id] else [], state.ref_cnt[block_id]
        if block_id == 0 and state.has_null_block:
            if owners:
                said.append(f"#0 is the null block, and {_and(owners)} reads it.")
            continue
        if count != held[block_id]:
            said.append(f"#{block_id} has ref_cnt {count}, but {held[block_id]} table entries point at it.")
        if block_id in free and owners:
            said.append(f"#{block_id} is free, and {_and(owners)} still reads it: it will be handed out again.")
        if block_id not in free and not owners and not count:
            said.append(f"#{block_id} is neither free nor in a table: it is lost.")
    for request_id, table in state.tables.items():
        for block_id, times in Counter(table).items():
            if times > 1:
                said.append(f"{request_id}'s table has #{block_id} {times} times.")
        said += _misread(state, request_id, table)
    return said


def _misread(state: MemoryState, request_id: str, table: list[int]) -> list[str]:
    """Blocks in which the request finds something else than the tokens it has."""
    said, request, size = [], state.requests[request_id], state.block_size
    for logical, block_id in enumerate(table):
        wrong, writers = 0, set()
        for offset in range(state.filled(request_id, logical)):
            position, slot = logical * size + offset, state.slots[block_id][offset]
            if slot is None or (slot.position, slot.token_id) != (position, request.token_ids[position]):
                wrong += 1
                writers.add("nobody" if slot is None else slot.request_id)
        if wrong:
            tokens = "1 token" if wrong == 1 else f"{wrong} tokens"
            said.append(
                f"{request_id} reads {tokens} in #{block_id} (its logical block {logical}) that are not its own: "
                f"{_and(sorted(writers))} wrote there."
            )
    return said


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
