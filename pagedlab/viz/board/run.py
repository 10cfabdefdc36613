"""One setting of the knobs, tried: the pool that it gives on a card (computed), and the same workload served by this
engine with a fraction of that pool (measured)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pagedlab.errors import PagedlabError, whole
from pagedlab.trace import MemoryState, Trace
from pagedlab.trace import events as ev

KNOBS = ("gpu_memory_utilization", "block_size", "enable_prefix_caching", "max_num_seqs")
FRACTION = 32  # the CPU runs one part in so many: of the pool's blocks, of the sequences, of the requests
MAX_NUM_BATCHED_TOKENS = 8192  # of the card

SYSTEM = "You work at a small library. Answer in one sentence, and name the shelf where the book stands. "
WORDS = "who wrote it and when, is there one for children about the sea or stars, and may I keep it until May "

# name -> (what it is, its unit)
MEASURES = {
    "concurrency": ("running at once", "requests, mean of all steps"),
    "preemptions": ("preemptions", "how often somebody made room"),
    "computed": ("tokens computed", "all that went through the model"),
    "waste": ("waste", "% empty of slots held, shared once"),
    "table": ("table length", "entries of a request, mean"),
}


def workload(num_requests: int = 20, seed: int = 9, answers: tuple[int, int] = (40, 120)) -> list[tuple[str, int]]:
    """(prompt, output tokens): questions of 16 to 64 tokens behind one system prompt, answers of ``answers``."""
    random = Random(whole(seed, "seed"))
    return [
        (SYSTEM + (WORDS * 2)[random.randrange(90) :][: random.randint(16, 64)], random.randint(*answers))
        for _ in range(num_requests)
    ]


def checked_load(load: Any) -> list[tuple[str, int]]:
    """``load`` as a list, if it is one that can be served. Raises PagedlabError for any other."""
    try:
        pairs = [(prompt, max_tokens) for prompt, max_tokens in load]
    except (TypeError, ValueError):
        pairs = []
    if not pairs:
        raise PagedlabError(f"load is {str(load)[:60]}; give (prompt, output tokens) of at least one request.")
    for prompt, max_tokens in pairs:
        if not isinstance(prompt, str) or not prompt:
            raise PagedlabError(f"A prompt of load is {prompt!r}; it must be text, at least one character.")
        if whole(max_tokens, "A number of output tokens in load") < 1:
            raise PagedlabError(f"A number of output tokens in load is {max_tokens}; it must be at least 1.")
    return pairs


@dataclass
class KnobRun:
    """``plan``: the card's memory under these knobs (``pagedlab.engine.cards.CardPlan``). ``llm`` and ``measured``:
    None and empty where nothing ran, and ``summary`` tells why."""

    number: int
    plan: Any
    fraction: int
    config: dict[str, int] = field(default_factory=dict)  # of the engine here: blocks, sequences, tokens a step
    llm: Any = None
    measured: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    opening: int = 1  # the step to look at first
    why: str = ""  # that one
    summary: str = ""
    column: int = 1  # its place among the runs that are kept

    @property
    def outcome(self) -> str:
        """ "ran", or why not: "out of memory", "no room", "too small" (for one of the requests)."""
        return "ran" if self.ran else self.plan.outcome if self.plan.outcome != "fits" else "too small"

    @property
    def ran(self) -> bool:
        return self.llm is not None

    @property
    def knobs(self) -> dict[str, Any]:
        return self.plan.knobs


def run_knobs(
    number: int,
    plan: Any,
    base: Any,
    *,
    fraction: int = FRACTION,
    load: Sequence[tuple[str, int]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> KnobRun:
    """Serve ``load`` (default: :func:`workload`) with ``1/fraction`` of the plan's pool, on the weights of ``base`` (an
    LLM). ``progress(finished, of)`` is called after each step."""
    from pagedlab.engine import LLM, SamplingParams

    load = workload() if load is None else load
    run = KnobRun(number, plan, fraction, summary=plan.summary)
    if plan.outcome != "fits":
        return run
    knobs = plan.knobs
    run.config = {
        "num_gpu_blocks_override": max(2, plan.budget.num_blocks // fraction),
        "max_num_seqs": max(1, round(knobs["max_num_seqs"] / fraction)),
        "max_num_batched_tokens": max(1, MAX_NUM_BATCHED_TOKENS // fraction),
    }
    llm = LLM(
        base, record=True, block_size=knobs["block_size"], enable_prefix_caching=knobs["enable_prefix_caching"],
        **run.config,
    )  # fmt: skip
    try:
        for prompt, max_tokens in load:
            llm.add_request(prompt, SamplingParams(max_tokens=max_tokens, ignore_eos=True))
    except PagedlabError:
        slots = (run.config["num_gpu_blocks_override"] - 1) * knobs["block_size"]
        longest = max(len(base.tokenizer.encode(prompt)) + max_tokens for prompt, max_tokens in load)
        run.summary = (
            f"Too small to serve: 1/{fraction} of the pool holds {slots} tokens, and one request may need {longest}."
        )
        return run
    while llm.has_unfinished_requests():
        llm.step()
        if progress:
            progress(len(load) - len(llm.groups), len(load))
    run.llm = llm
    run.steps = llm.step_count
    run.measured, run.opening = measure(llm.trace)
    run.why = "the first preemption" if run.measured["preemptions"] else "no other holds more blocks"
    return run


def measure(trace: Trace) -> tuple[dict[str, float], int]:
    """The figures of a run (see ``MEASURES``), and the step to look at first: that of the first preemption, else the
    one in which most slots are held. Each step is looked at when its tokens are written and nobody has left yet.

    Besides, what the tokens computed are made of: all that are in memory at some time ("needed"), without those that
    were "found" in the prefix cache, and "again" those that a preemption threw away."""
    state = MemoryState.of(trace.header["config"])
    size, ends = state.block_size, (ev.TokenSampled, ev.StepEnded)
    running: list[int] = []
    waste: list[float] = []
    tables: list[float] = []
    preemptions = computed = found = again = 0
    first: int | None = None
    fullest, most, seen = 1, -1, 0
    for event in trace.events:
        if isinstance(event, ends) and seen < state.step:
            seen = state.step
            held = {block for r in state.running for block in state.tables.get(r, ())}
            unused = sum(
                len(state.tables[r]) * size - state.requests[r].num_computed_tokens
                for r in state.running
                if r in state.tables
            )
            running.append(len(state.running))
            tables += [len(state.tables[r]) for r in state.running if r in state.tables]
            if held:
                waste.append(unused / (len(held) * size))
            if len(held) > most:
                most, fullest = len(held), state.step
        if isinstance(event, ev.RequestPreempted):
            again += state.requests[event.request_id].num_computed_tokens
        state.apply(event)
        if isinstance(event, ev.RequestPreempted):
            preemptions += 1
            first = first or state.step
        found += isinstance(event, ev.BlockTouched) * size
        computed += isinstance(event, ev.SlotWritten)
    figures = {
        "concurrency": sum(running) / max(1, len(running)),
        "preemptions": preemptions,
        "computed": computed,
        "waste": 100 * sum(waste) / max(1, len(waste)),
        "table": sum(tables) / max(1, len(tables)),
        "needed": computed + found - again,
        "found": found,
        "again": again,
    }
    return figures, first or fullest
