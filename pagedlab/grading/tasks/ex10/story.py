"""The step that exercise 10 takes apart: two requests decode, one of them finishes, and a third comes in on a hit."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from pagedlab.grading.tasks.ex10.watched import Call, as_record, numbers, watched
from pagedlab.grading.tasks.small_model import on_one_core, small_model

BLOCK_SIZE, NUM_BLOCKS = 4, 24


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
    """Make a step of an engine that does not record, and return who was called, in the order in which the calls
    began."""
    with watched(llm.scheduler, llm.kv_cache_manager, llm.block_pool) as calls:
        llm.step()
    return calls


def recorded(seed: int, model: Any = "tiny-random") -> tuple[Any, list[dict]]:
    """A run of six steps, and the record of its calls. Four requests, of which two begin alike, and little memory: some
    end, somebody has to wait, or to make room."""
    from pagedlab.engine import LLM, SamplingParams

    rng = random.Random(f"10 record {seed}")
    llm = LLM(model, device="cpu", block_size=BLOCK_SIZE, num_gpu_blocks_override=rng.randint(9, 11))
    words = [rng.randrange(40, 200) for _ in range(60)]
    shared = BLOCK_SIZE * rng.randint(1, 2)
    lengths = {name: rng.randint(5, 9) for name in "ABCD"}
    starts = {"A": words[:shared], "B": [], "C": words[:shared], "D": []}
    with watched(llm.scheduler, llm.kv_cache_manager, llm.block_pool) as calls:
        for i, (name, length) in enumerate(lengths.items()):
            prompt = starts[name] + words[12 * i + 8 : 12 * i + 8 + length - len(starts[name]) // 2]
            llm.add_request(prompt, SamplingParams(max_tokens=rng.randint(2, 8), ignore_eos=True), request_id=name)
            if i:
                llm.step()
        for _ in range(3):
            llm.step()
    return llm, as_record(calls)


def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed. ``print`` it."""
    with on_one_core():
        llm = story(seed, small_model())
        return puzzle_of(before(llm), calls_of_a_step(llm))


def puzzle_of(moment: tuple[str, ...], calls: list[Call]) -> Puzzle:
    """The puzzle of a step. Its calls stand in the order of the alphabet, which says nothing about theirs."""
    texts = sorted(call.text for call in calls)
    return Puzzle(moment, dict(zip("abcdefghijklmnopqrstuvwxyz", texts, strict=False)))


def before(llm: Any) -> tuple[str, ...]:
    """Who runs and who waits, in words."""
    running = [
        f"{r.request_id}: {r.num_tokens} tokens, {r.num_computed_tokens} computed, blocks "
        f"{numbers(llm.kv_cache_manager.get_block_ids(r.request_id))}"
        for r in llm.scheduler.running
    ]
    (newcomer,) = llm.scheduler.waiting
    free = [block.block_id for block in llm.block_pool.free_block_queue.get_all_free_blocks()]
    return (
        f"block size  {BLOCK_SIZE}",
        *(f"{'running' if i == 0 else '':<10}  {line}" for i, line in enumerate(running)),
        f"waiting     {newcomer.request_id}: {newcomer.num_tokens} tokens",
        f"free queue  {numbers(free[:6])} …",
    )
