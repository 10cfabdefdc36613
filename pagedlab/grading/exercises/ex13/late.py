"""Part 13.4: the whole life of a request that is planned one step ahead."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from pagedlab.engine.async_scheduler import AsyncScheduler
from pagedlab.engine.request import Request, SamplingParams
from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex13 import probes
from pagedlab.kv import BlockPool, KVCacheManager

NAMES = ("answer", "plans", "dropped", "held")


def right(case: dict) -> dict[str, Any]:
    """By the package's own scheduler: each plan is made before the tokens of the one before are taken in."""
    size, prompt, stops = case["block_size"], case["prompt"], set(case["stops"])
    pool = BlockPool(3 + (prompt + case["max_tokens"]) // size, False)
    manager = KVCacheManager(pool, size, 1 << 20, False)
    params = SamplingParams(max_tokens=case["max_tokens"], ignore_eos=True)
    request = Request("A", list(range(prompt)), params, block_size=size, enable_caching=False)
    scheduler = AsyncScheduler(manager, max_num_seqs=1, max_num_batched_tokens=1 << 20, max_model_len=1 << 20)
    scheduler.add_request(request)
    under_way: deque = deque()
    sampled, plans, held = iter(case["sampled"]), 0, []
    while scheduler.has_unfinished_requests():
        output = scheduler.schedule()
        scheduler.update_after_schedule(output)
        plans += "A" in output.num_scheduled_tokens
        held.append(len(manager.get_block_ids("A")))
        under_way.append(output)
        if len(under_way) > 1:
            first = under_way.popleft()
            tokens = {"A": next(sampled)} if first.num_scheduled_tokens else {}
            scheduler.update_from_output(first, tokens, lambda r: r.all_token_ids[-1] in stops)
    answer = request.all_token_ids[prompt:]
    return {"answer": answer, "plans": plans, "dropped": plans - len(answer), "held": held}


def _case(prompt: int, at: int | None, max_tokens: int, size: int, rng: random.Random) -> dict:
    """``at``: which of the sampled tokens is the first stop token, from 0; None: none is."""
    stops = rng.sample(range(100, 110), 2)
    sampled = [rng.randrange(10, 90) for _ in range(max_tokens + 3)]
    if at is not None:
        sampled[at] = rng.choice(stops)
        if at + 2 < len(sampled):
            sampled[at + 2] = rng.choice(stops)  # whatever comes then is nobody's
    return {"prompt": prompt, "sampled": sampled, "stops": stops, "max_tokens": max_tokens, "block_size": size}


def _cases(rng: random.Random, seed: int) -> list[dict]:
    fixed = random.Random("13.4 always")
    shapes = [
        (5, None, 3, 4), (5, 1, 6, 4), (6, 0, 6, 4), (7, 0, 6, 4), (8, 0, 6, 4), (5, 2, 3, 4), (5, 1, 3, 4),
        (8, None, 1, 4), (8, 0, 1, 4), (4, None, 5, 4), (4, 3, 9, 4), (3, 3, 9, 4), (3, 4, 9, 4), (1, None, 4, 1),
        (1, 1, 4, 1), (16, 8, 20, 16), (15, 0, 20, 16), (5, 5, 4, 4), (5, 3, 4, 4),
    ]  # fmt: skip
    return [*[_case(*shape, fixed) for shape in shapes], *twice(_drawn, rng, "13.4")]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(14):
        max_tokens = rng.randint(1, 3 + i)
        at = rng.choice((None, rng.randrange(max_tokens), rng.randrange(max_tokens), max_tokens - 1))
        cases.append(_case(rng.randint(1, 20), at, max_tokens, rng.choice((1, 2, 4, 8)), rng))
    return cases


def _of(*names: str) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        expected = right(case)
        for name in names:
            if answer[name] != expected[name]:
                return f"{case}: {name} is {show(answer[name])}"
        return None

    return broken


def _shape(case: dict, answer: Any) -> str | None:
    good = type(answer) is dict and not raised(answer) and sorted(answer) == sorted(NAMES)
    good = good and is_int(answer["plans"]) and is_int(answer["dropped"])
    for name in ("answer", "held"):
        good = good and type(answer[name]) is list and all(map(is_int, answer[name]))
    return None if good else f"one_ahead gave {show(answer)}"


LATE = Part(
    "13.4",
    "a stop that is noticed late",
    2,
    ("one_ahead",),
    _cases,
    probes.late,
    (
        Property(
            "one_ahead returns a dict of answer and held (lists), plans and dropped (ints)",
            _shape,
            ('{"answer": [31, 7], "plans": 3, "dropped": 1, "held": [2, 2, 2]}, for example.',),
        ),
        Property(
            "the answer ends with the first stop token, or after max_tokens",
            _of("answer"),
            ("What is sampled after a stop token is no part of it; the stop token is.",),
        ),
        Property(
            "a stop token costs one plan more, whose token is dropped; max_tokens is seen coming",
            _of("plans", "dropped"),
            (
                "When plan k is made, the tokens of plan k − 2 are known, and that of plan k − 1 is being sampled.",
                "Without knowing the token one can count it: where it is the last one allowed, no plan follows.",
            ),
        ),
        Property(
            "held: the blocks after each plan that is made until its end is noticed, that one included",
            _of("held"),
            (
                "Plan 1 computes the prompt, plan 2 one token more.",
                "The end is noticed when the tokens come in. One more plan has been made by then, with it or without.",
            ),
        ),
    ),
)
