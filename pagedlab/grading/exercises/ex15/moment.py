"""Part 15.4: usage, cached blocks and hit rate at a moment of a trace."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex15 import probes
from pagedlab.trace import MemoryState, Trace, load, recorded
from pagedlab.trace.events import from_dict, to_dict

NAMES = ("in_use", "cached", "found", "asked")
LEFT_OUT = "slot_written"  # half of a trace, and nothing that the part asks about


def right(case: dict) -> dict[str, int]:
    """By the package's own replay."""
    return _after_each_step(tuple(case["lines"]))[case["step"]]


@lru_cache(maxsize=64)
def _after_each_step(lines: tuple[str, ...]) -> dict[int, dict[str, int]]:
    header, *events = map(json.loads, lines)
    state, prompts, found, after = MemoryState.of(header["config"]), {}, {}, {}
    for event in map(from_dict, events):
        state.apply(event)
        if event.kind == "request_admitted" and event.request_id not in found:
            found[event.request_id] = event.num_computed_tokens
            prompts[event.request_id] = state.requests[event.request_id].num_prompt_tokens
        if event.kind == "step_ended":
            in_use, hits, of = sum(count > 0 for count in state.ref_cnt), sum(found.values()), sum(prompts.values())
            after[event.step] = {"in_use": in_use, "cached": len(state.cached), "found": hits, "asked": of}
    return after


@lru_cache(maxsize=2)
def _recorded(name: str) -> tuple[str, ...]:
    return tuple(_lines(load(recorded(name))))


def _lines(trace: Trace) -> list[str]:
    header = {"kind": "header", "config": trace.header["config"]}
    events = [to_dict(event) for event in trace.events if event.kind != LEFT_OUT]
    for event in events:
        if "seconds" in event:
            event["seconds"] = 0.0  # the same run is the same case
    return [json.dumps(one) for one in (header, *events)]


def _cases(rng: random.Random, seed: int) -> list[dict]:
    """A short run from its first step on; the recordings of vLLM; drawn runs."""
    short = _run(random.Random("15.4 short"), requests=2, longest=8)
    cases = [{"lines": short, "step": step} for step in range(1, 5)]
    cases += [{"lines": list(_recorded("vllm-sync")), "step": step} for step in (7, 35, 41, 75, 79, 127)]
    cases += [{"lines": list(_recorded("vllm-async")), "step": step} for step in (36, 78)]
    return [*cases, *twice(_drawn, rng, "15.4")]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for _ in range(3):
        lines = _run(rng, requests=7, longest=30)
        steps = sum('"kind": "step_ended"' in line for line in lines)
        cases += [{"lines": lines, "step": rng.randint(1, steps)}, {"lines": lines, "step": steps}]
    return cases


def _run(rng: random.Random, requests: int, longest: int) -> list[str]:
    """A run of the package's scheduler, manager and pool without a model: few beginnings, a small pool, now and then an
    answer to the end and a reset of the prefix cache."""
    from pagedlab.engine import LLM, SamplingParams

    knobs = {"block_size": 4, "num_gpu_blocks_override": 15, "max_num_seqs": 4, "max_model_len": 56}
    llm = LLM(device="counting", record=True, **knobs)
    starts = [[rng.randint(5, 90) for _ in range(12)] for _ in range(2)]
    for number in range(requests):
        prompt = rng.choice(starts) + [rng.randint(5, 90) for _ in range(rng.randint(1, 9))]
        params = SamplingParams(max_tokens=rng.randint(longest // 4, longest), ignore_eos=True)
        llm.add_request(prompt, params, request_id=f"r{number}")
        for _ in range(rng.randint(0, 6)):
            llm.step()
        if number == requests // 2:
            while llm.has_unfinished_requests():
                llm.step()
            if requests > 2:
                llm.kv_cache_manager.reset_prefix_cache()
    while llm.has_unfinished_requests():
        llm.step()
    return _lines(llm.trace)


def _of(name: str) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        expected = right(case)[name]
        if answer[name] == expected:
            return None
        of = f"a trace of {len(case['lines'])} lines, after step {case['step']}"
        return f"{of}: {name} is {show(answer[name])}, expected is {expected}"

    return broken


def _shape(case: dict, answer: Any) -> str | None:
    good = type(answer) is dict and not raised(answer) and sorted(answer) == sorted(NAMES)
    if good and all(map(is_int, answer.values())):
        return None
    return f"moment gave {show(answer)}"


MOMENT = Part(
    "15.4",
    "usage, cached blocks and hit rate, from a trace",
    2,
    ("moment",),
    _cases,
    probes.moment,
    (
        Property(
            "moment returns a dict of in_use, cached, found and asked, each an int",
            _shape,
            ("len(…) and sum(…) give ints. The first line of a trace is its header, and no event.",),
        ),
        Property(
            "in_use counts the blocks that somebody owns after that step",
            _of("in_use"),
            (
                "A block may have several owners. It is in use until the last of them has given it back.",
                "Two kinds of events give an owner to a block: those that hand out, and those that find.",
                "What comes behind that step's step_ended does not count any more; what comes before its start does.",
            ),
        ),
        Property(
            "cached counts the blocks that have a hash after that step, free ones too",
            _of("cached"),
            (
                "To be freed takes no hash away. Two kinds of events do.",
                "A reset takes all at once.",
            ),
        ),
        Property(
            "found is what requests found when they first came in",
            _of("found"),
            ("A look-up is an attempt. Who was preempted comes in once more, and vLLM counts that elsewhere.",),
        ),
        Property(
            "asked are the prompt tokens of those that have come in",
            _of("asked"),
            ("Who still waits has not come in.", "Prompt tokens stand in the event of the arrival."),
        ),
    ),
)
