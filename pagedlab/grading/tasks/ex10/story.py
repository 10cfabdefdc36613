"""The step that exercise 10 takes apart: two requests decode, one of them finishes, and a third comes in on a hit."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import Any

from pagedlab.grading.tasks.small_model import on_one_core, small_model

BLOCK_SIZE, NUM_BLOCKS = 4, 24
SCHEDULER, MANAGER, POOL = "scheduler", "manager", "pool"


@dataclass
class Call:
    """A call in a step: whose method it is, and what a log would say of it."""

    owner: str
    text: str


@dataclass(frozen=True)
class Puzzle:
    """What a learner is told: who runs and who waits before the step, and its calls under letters, in
    the order of the alphabet."""

    before: tuple[str, ...]
    calls: dict[str, str]  # letter -> text

    def __str__(self) -> str:
        return "\n".join([*self.before, "", *(f"{letter}  {text}" for letter, text in self.calls.items())])


def story(seed: int, model: Any = "tiny-random", **parts: Any) -> Any:
    """An engine just before the step: A decodes and will finish, B decodes, C waits and begins as A did.

    ``parts``: ``record=True`` to look at it, and replacements, as ``LLM`` takes them.
    """
    from pagedlab.engine import LLM, SamplingParams

    rng = random.Random(f"10 {seed}")
    llm = LLM(model, device="cpu", block_size=BLOCK_SIZE, num_gpu_blocks_override=NUM_BLOCKS, **parts)
    steps = rng.randint(2, 4)
    words = [rng.randrange(40, 200) for _ in range(60)]
    shared = BLOCK_SIZE * rng.randint(1, 3)
    prompts = {
        "A": words[: shared + rng.randint(1, 3)],
        "B": words[20 : 20 + rng.randint(6, 12)],
        "C": words[:shared] + words[40 : 40 + rng.randint(2, 9)],
    }
    first, second = rng.sample("AB", 2)
    for name in (first, second):
        tokens = steps + 1 if name == "A" else 20
        llm.add_request(prompts[name], SamplingParams(max_tokens=tokens, ignore_eos=True), request_id=name)
    for _ in range(steps):
        llm.step()
    llm.add_request(prompts["C"], SamplingParams(max_tokens=8, ignore_eos=True), request_id="C")
    return llm


def calls_of_a_step(llm: Any) -> list[Call]:
    """Make a step of an engine that does not record, and return who was called, in the order in which the calls began.

    Only the calls that decide about blocks; what merely asks for a number is left out.
    """
    calls: list[Call] = []
    asking: list[Any] = []  # the request whose prefix is being looked up

    def watched(owner: str, method: Any, describe: Any, *args: Any, **kwargs: Any) -> Any:
        call = Call(owner, "")
        calls.append(call)
        if method.__name__ == "get_computed_blocks":
            asking[:] = args
        result = method(*args, **kwargs)
        call.text = describe(result, *args, **kwargs)
        return result

    def found(result: Any, block_hash: bytes) -> str:
        logical = asking[0].block_hashes.index(block_hash)
        answer = f"#{result.block_id}" if result else "None"
        return f"get_cached_block(hash of {asking[0].request_id}'s block {logical}) -> {answer}"

    texts: dict[str, dict[str, Any]] = {
        SCHEDULER: {
            "schedule": lambda result: f"schedule() -> tokens: {_tokens(result.num_scheduled_tokens)}",
            "update_from_output": lambda result, *_: f"update_from_output(...) -> finished: {_names(result)}",
        },
        MANAGER: {
            "get_computed_blocks": lambda result, request: (
                f"get_computed_blocks({request.request_id}) -> {_ids(result[0])}, {result[1]} tokens"
            ),
            "allocate_slots": lambda result, request, count, **_: (
                f"allocate_slots({request.request_id}, {count}) -> {_ids(result)}"
            ),
            "free": lambda _, request: f"free({request.request_id})",
        },
        POOL: {
            "get_cached_block": found,
            "touch": lambda _, blocks: f"touch({_ids(blocks)})",
            "get_new_blocks": lambda result, count: f"get_new_blocks({count}) -> {_ids(result)}",
            "cache_full_blocks": lambda _, blocks, hashes, first, end: f"cache_full_blocks({_ids(blocks[first:end])})",
            "free_blocks": lambda _, blocks: f"free_blocks({_ids(blocks)})",
        },
    }
    things = {SCHEDULER: llm.scheduler, MANAGER: llm.kv_cache_manager, POOL: llm.block_pool}
    for owner, methods in texts.items():
        for name, describe in methods.items():
            setattr(things[owner], name, partial(watched, owner, getattr(things[owner], name), describe))
    try:
        llm.step()
    finally:
        for owner, methods in texts.items():
            for name in methods:
                delattr(things[owner], name)
    return calls


def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed. ``print`` it."""
    with on_one_core():
        llm = story(seed, small_model())
        return told(before(llm), calls_of_a_step(llm))


def told(moment: tuple[str, ...], calls: list[Call]) -> Puzzle:
    """The puzzle of a step. Its calls stand in the order of the alphabet, which says nothing about theirs."""
    texts = sorted(call.text for call in calls)
    return Puzzle(moment, dict(zip("abcdefghijklmnopqrstuvwxyz", texts, strict=False)))


def before(llm: Any) -> tuple[str, ...]:
    """Who runs and who waits, in words."""
    running = [
        f"{r.request_id}: {r.num_tokens} tokens, {r.num_computed_tokens} computed, blocks "
        f"{_numbers(llm.kv_cache_manager.get_block_ids(r.request_id))}"
        for r in llm.scheduler.running
    ]
    (newcomer,) = llm.scheduler.waiting
    free = [block.block_id for block in llm.block_pool.free_block_queue.get_all_free_blocks()]
    return (
        f"block size  {BLOCK_SIZE}",
        *(f"{'running' if i == 0 else '':<10}  {line}" for i, line in enumerate(running)),
        f"waiting     {newcomer.request_id}: {newcomer.num_tokens} tokens",
        f"free queue  {_numbers(free[:6])} …",
    )


def _numbers(ids: list[int]) -> str:
    return " ".join(f"#{i}" for i in ids) or "none"


def _ids(blocks: Any) -> str:
    return "None" if blocks is None else _numbers([block.block_id for block in blocks])


def _tokens(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _names(requests: list) -> str:
    return " ".join(request.request_id for request in requests) or "nobody"
