"""The runs that exercise 09 asks its prediction about: one workload and one small card, under four settings."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pagedlab.grading.tasks.ex09.served import served
from pagedlab.grading.tasks.small_model import on_one_core, small_model

BLOCK_SIZE, COMMON, ANSWER = 4, 8, 6
NAMES = "ABCDE"
SYSTEM, TEXT = "Be kind.", "wide meadows lie behind the last house of the town, and nobody mows them"
LOW, HIGH = 0.88, 0.9
BASE = {"gpu_memory_utilization": LOW, "max_num_seqs": 8, "enable_prefix_caching": False}
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"max_num_seqs": 2},
    {"gpu_memory_utilization": HIGH},
    {"enable_prefix_caching": True},
)
TOKENS_A_STEP = 96


@dataclass(frozen=True)
class Puzzle:
    """What a learner is told. ``pools``: blocks under each setting, the null block not counted."""

    seed: int
    prompts: list[int]  # tokens of each, in order of arrival
    pools: list[int]

    def __str__(self) -> str:
        prompts = ", ".join(f"{name} {n}" for name, n in zip(NAMES, self.prompts, strict=True))
        lines = [
            f"prompts, in order of arrival  {prompts} tokens; the first {COMMON} are the same in all",
            f"answers                       {ANSWER} tokens each",
            f"block size                    {BLOCK_SIZE}",
            "",
            "setting  utilization  max_num_seqs  prefix caching  blocks (without the null block)",
        ]
        for i, (change, pool) in enumerate(zip(CHANGES, self.pools, strict=True)):
            utilization, seqs, caching = (BASE | change).values()
            lines.append(f"{i + 1:>7}  {utilization:>11}  {seqs:>12}  {'on' if caching else 'off':>14}  {pool:>6}")
        return "\n".join(lines)


def story(seed: int, setting: int, **parts: Any) -> Any:
    """A recording engine under setting 1 to 4, on the small random model and a card of a few MiB; the prompts have
    arrived, and no step was made. ``parts``: replacements, as ``LLM`` takes them."""
    prompts, num_blocks = _prompts(seed)
    return _engine(prompts, _card_with(num_blocks), setting, **parts)


def _empty(card: int, setting: int, **parts: Any) -> Any:
    from pagedlab.engine import LLM

    knobs = BASE | CHANGES[setting - 1]
    sizes = {"block_size": BLOCK_SIZE, "device_memory": card, "max_num_batched_tokens": TOKENS_A_STEP}
    return LLM(small_model(), record=True, **sizes, **knobs, **parts)


def _engine(prompts: list[int], card: int, setting: int, **parts: Any) -> Any:
    from pagedlab.engine import SamplingParams

    llm = _empty(card, setting, **parts)
    system, tokens = llm.tokenizer.encode(SYSTEM), llm.tokenizer.encode(TEXT)
    assert len(system) == COMMON
    for i, (name, length) in enumerate(zip(NAMES, prompts, strict=True)):
        prompt = system + tokens[9 * i :][: length - COMMON]
        llm.add_request(prompt, SamplingParams(max_tokens=ANSWER, ignore_eos=True), request_id=name)
    return llm


def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed. ``print`` it."""
    with on_one_core():
        return puzzle_of([story(seed, setting) for setting in range(1, len(CHANGES) + 1)], seed)


def puzzle_of(engines: list[Any], seed: int) -> Puzzle:
    """The puzzle as the engines of the four settings tell it."""
    return Puzzle(seed, _prompts(seed)[0], [llm.num_blocks - 1 for llm in engines])


@lru_cache(maxsize=64)
def _card_with(num_blocks: int) -> int:
    """Bytes of a card whose pool has so many blocks at the lower utilization, and the null block."""
    budget = _empty(64 << 20, 1).pool_budget
    needed = budget.weights + budget.activations + budget.other
    return int((needed + (num_blocks + 1.5) * budget.bytes_per_block) / LOW)


@lru_cache(maxsize=64)
def _prompts(seed: int) -> tuple[list[int], int]:
    """Lengths and a pool with which the first setting throws somebody out, but not often, and the second one nobody."""
    rng = random.Random(f"09 {seed}")
    while True:
        prompts = [COMMON + rng.randint(1, 9) for _ in NAMES]
        load, num_blocks = [(n, ANSWER) for n in prompts], rng.randint(9, 13)
        wide, narrow = (served(load, num_blocks, BLOCK_SIZE, limit) for limit in (8, 2))
        if wide and 1 <= wide["preemptions"] <= 2 and narrow["preemptions"] == 0:
            return prompts, num_blocks
