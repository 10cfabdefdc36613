"""Two questions to a run: what happened to a block, and where is a token?"""

from __future__ import annotations

from pagedlab.trace import MemoryState, Trace
from pagedlab.trace import events as ev
from pagedlab.viz.kit import labels, panes
from pagedlab.viz.kit.panes import Part

MOST = 40


def life_of(trace: Trace, block_id: int) -> list[tuple[int, str]]:
    """What happened to a block: (step, in words). Neighbouring writes of one step are told together."""
    life: list[tuple[int, str]] = []
    step, written, writer = 0, [], ""

    def say_written() -> None:
        if written:
            life.append((step, f"{writer} wrote {labels.listed(labels.quoted(text) for text in written)}"))
            written.clear()

    for e in trace.events:
        if isinstance(e, ev.SlotWritten):
            if e.block_id == block_id:
                if writer != e.request_id:
                    say_written()
                writer = e.request_id
                written.append(e.text)
            continue
        say_written()
        if isinstance(e, ev.StepStarted):
            step = e.step
        elif words := _about(e, block_id):
            life.append((step, words))
    say_written()
    return life


def _about(e: ev.Event, block_id: int) -> str:
    match e:
        case ev.BlocksAllocated() if block_id in e.block_ids:
            return f"handed out to {e.request_id}"
        case ev.BlockTouched() if e.block_id == block_id:
            return f"found again by {e.request_id}" + (", taken out of the free queue" if e.revived else "")
        case ev.BlockCached() if e.block_id == block_id:
            return "full: from now on it can be found by its content"
        case ev.BlockEvicted() if e.block_id == block_id:
            return "no longer found by its content"
        case ev.BlocksFreed() if e.pool == "gpu" and block_id in e.block_ids:
            last = block_id in e.to_head or block_id in e.to_tail
            return f"given up by {e.request_id}" + (": free" if last else ", others still hold it")
        case ev.BlocksOutOfWindow() if block_id in e.block_ids:
            return f"fallen out of {e.request_id}'s window" + (": free" if block_id in e.to_head + e.to_tail else "")
        case ev.BlockCopied() if e.from_block_id == block_id:
            return f"copied to #{e.to_block_id} for {e.request_id}"
        case ev.BlockCopied() if e.to_block_id == block_id:
            return f"got a copy of #{e.from_block_id} for {e.request_id}"
        case ev.BlocksSwappedOut() if block_id in e.gpu_block_ids:
            return f"moved to the CPU's memory (#{e.cpu_block_ids[e.gpu_block_ids.index(block_id)]} there)"
        case ev.BlocksSwappedIn() if block_id in e.gpu_block_ids:
            return f"filled from the CPU's memory for {labels.listed(e.request_ids)}"
        case ev.TableEdited() if e.new_block_id == block_id:
            return f"you pointed {e.request_id}'s logical block {e.logical_block} at it"
        case ev.TableEdited() if e.old_block_id == block_id:
            return f"you took it out of {e.request_id}'s table"
    return ""


def follow_pane(trace: Trace, num_blocks: int, query: str) -> list[Part]:
    parts = [panes.form("block", "Follow", panes.field("block", "Block #", query))]
    if not query:
        return parts
    number = query.strip().lstrip("#")
    if not number.isdigit() or int(number) >= num_blocks:
        return [*parts, panes.text(f"There is no block {query}; the pool has #0 to #{num_blocks - 1}.", alarm=True)]
    life = life_of(trace, int(number))
    if not life:
        return [*parts, panes.text(f"Nothing has happened to #{number} so far.")]
    return [*parts, panes.table(["step", f"#{number}"], life[-MOST:]), *_jumps(step for step, _ in life)]


def find_pane(trace: Trace, state: MemoryState, query: str) -> list[Part]:
    """Where the tokens whose text holds ``query`` are at the cursor, and when they were written last."""
    parts = [panes.form("token", "Find", panes.field("token", "Token", query))]
    wanted = query.strip().lower()
    if not wanted:
        return parts
    steps: dict[tuple[str, int], int] = {}
    step = 0
    for e in trace.events:
        if isinstance(e, ev.StepStarted):
            step = e.step
        elif isinstance(e, ev.SlotWritten):
            steps[e.request_id, e.position] = step
    rows = []
    for request_id, request in state.requests.items():
        for position, word in enumerate(request.texts):
            if wanted in labels.token(word).lower():
                place = _place(state, request_id, position)
                rows.append((labels.token(word), request_id, position, *place, steps.get((request_id, position), "–")))
    if not rows:
        return [*parts, panes.text(f"No token here has “{query.strip()}” in it.")]
    head = ["token", "request", "position", "logical", "physical", "offset", "written in step"]
    return [*parts, panes.table(head, rows[:MOST]), *_jumps(row[-1] for row in rows if row[-1] != "–")]


def _place(state: MemoryState, request_id: str, position: int) -> tuple[str, str, str]:
    """Logical block, physical block and offset."""
    logical, offset = divmod(position, state.block_size)
    in_cpu = request_id in state.cpu.tables
    table = (state.cpu if in_cpu else state).tables.get(request_id, [])
    if position >= state.requests[request_id].num_computed_tokens or logical >= len(table):
        return str(logical), "not in memory", "–"
    return str(logical), f"{'CPU ' if in_cpu else ''}#{table[logical]}", str(offset)


def _jumps(steps) -> list[Part]:
    wanted = list(dict.fromkeys(step for step in steps if step))[:8]
    return [panes.buttons(*((f"step {step}", f"Go to step {step}", False) for step in wanted))] if wanted else []
