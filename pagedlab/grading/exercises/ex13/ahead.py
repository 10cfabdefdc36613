"""Part 13.3: what one request gets in a plan that is made one step ahead."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.engine.async_scheduler import AsyncScheduler
from pagedlab.engine.request import Request, SamplingParams
from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex13 import probes
from pagedlab.kv import BlockPool, KVCacheManager

NAMES = ("tokens", "blocks", "awaited")


def right(case: dict) -> dict[str, int]:
    """By the package's own scheduler and manager."""
    r, size = case["request"], case["block_size"]
    manager = KVCacheManager(BlockPool(4 + (r["tokens"] + 2) // size, False), size, 1 << 20, False)
    params = SamplingParams(max_tokens=r["max_tokens"], ignore_eos=True)
    request = Request("A", list(range(r["prompt"])), params, block_size=size, enable_caching=False)
    for token in range(r["tokens"] - r["prompt"]):
        request.append_output_token(token)
    manager.allocate_slots(request, r["computed"])
    request.status, request.num_computed_tokens = "running", r["computed"]
    request.num_output_placeholders = r["awaited"]
    scheduler = AsyncScheduler(manager, max_num_seqs=1, max_num_batched_tokens=case["budget"], max_model_len=1 << 20)
    scheduler.running.append(request)
    output = scheduler.schedule()
    scheduler.update_after_schedule(output)
    return {
        "tokens": output.num_scheduled_tokens.get("A", 0),
        "blocks": len(output.new_block_ids.get("A", [])),
        "awaited": request.num_output_placeholders,
    }


def _case(prompt: int, answered: int, computed: int, awaited: int, max_tokens: int, budget: int = 64, size: int = 4):
    request = {"prompt": prompt, "tokens": prompt + answered, "computed": computed, "awaited": awaited,
               "max_tokens": max_tokens}  # fmt: skip
    return {"request": request, "budget": budget, "block_size": size}


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = [
        _case(6, 0, 6, 1, 8),  # its first token is being sampled
        _case(8, 0, 8, 1, 8),  # and needs a block
        _case(7, 0, 7, 1, 8),  # the last slot of one
        _case(6, 3, 9, 1, 8),
        _case(6, 2, 8, 1, 8),
        _case(20, 0, 8, 0, 8),  # the rest of a prompt
        _case(20, 0, 8, 0, 8, budget=5),  # a piece of it
        _case(20, 0, 8, 0, 8, budget=12),  # exactly
        _case(20, 0, 8, 0, 8, budget=11),
        _case(20, 0, 8, 0, 8, budget=1),
        _case(6, 7, 13, 1, 8),  # its last token is being sampled
        _case(6, 6, 12, 1, 8),  # the one before
        _case(6, 0, 6, 1, 1),  # the only one
        _case(6, 0, 6, 1, 2),
        _case(6, 7, 12, 0, 8),  # it was thrown out and is back: its last token is to come
        _case(8, 4, 4, 0, 8),  # back, and the rest is computed again
        _case(8, 4, 4, 0, 8, budget=7),
        _case(5, 0, 5, 1, 9, size=1),
        _case(16, 0, 16, 1, 9, size=16),
        _case(5, 0, 4, 0, 1, size=4),  # a prompt's last token
    ]
    return [*cases, *twice(_drawn, rng, "13.3")]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(24):
        prompt, size = rng.randint(2, 40), rng.choice((1, 2, 4, 8, 16))
        max_tokens = rng.randint(1, 12)
        answered = rng.choice((0, max_tokens - 1, max(0, max_tokens - 2), rng.randint(0, max_tokens - 1)))
        tokens = prompt + answered
        if i % 2:
            cases.append(_case(prompt, answered, tokens, 1, max_tokens, rng.randint(1, 64), size))
        else:
            computed = rng.randint(1, tokens - 1)
            left = tokens - computed
            budget = rng.choice((left, max(1, left - 1), left + 1, rng.randint(1, 64)))
            cases.append(_case(prompt, answered, computed, 0, max_tokens, budget, size))
    return cases


def _of(name: str) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        expected = right(case)[name]
        if answer[name] == expected:
            return None
        question = f"{case['request']}, budget {case['budget']}, blocks of {case['block_size']}"
        return f"{question}: {name} is {show(answer[name])}, expected is {expected}"

    return broken


def _shape(case: dict, answer: Any) -> str | None:
    good = type(answer) is dict and not raised(answer) and sorted(answer) == sorted(NAMES)
    return None if good and all(map(is_int, answer.values())) else f"plan_ahead gave {show(answer)}"


AHEAD = Part(
    "13.3",
    "a plan with placeholders",
    3,
    ("plan_ahead",),
    _cases,
    probes.ahead,
    (
        Property("plan_ahead returns a dict of tokens, blocks and awaited, each an int", _shape, ("Nothing is 0.",)),
        Property(
            "tokens: those it holds and those awaited, without the computed ones, as the budget allows",
            _of("tokens"),
            (
                "A token that is awaited is one that it will hold: it can be planned for.",
                "Where the awaited one is the last that it may have, there is nothing more to plan.",
            ),
        ),
        Property(
            "blocks: as many as are missing for the slots of this plan",
            _of("blocks"),
            (
                "It has blocks for what is computed. How many does it need for that and this plan's tokens?",
                "An awaited token has no value yet, but a position, and so a slot.",
            ),
        ),
        Property(
            "awaited: one more where all that it holds and awaits is computed after this plan",
            _of("awaited"),
            ("A chunk of a prompt samples nothing.", "Who is not in the plan samples nothing more."),
        ),
    ),
)
