"""Parts 03.3 and 03.4: the table of a real run, predicted."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex03.facts import Facts, facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, is_ints, same, show
from pagedlab.grading.tasks.ex03 import probes


def _prediction_cases(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _prefill(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return wrong(answer["table_after_prefill"], answer["tokens_in_block"], facts(case["seed"]))

    return broken


def _prefill_shape(table: Any, fill: Any, truth: Facts) -> str | None:
    if not is_ints(table) or not is_ints(fill):
        return f"table_after_prefill is {show(table)} and tokens_in_block is {show(fill)}"
    return None if len(table) == len(fill) else f"{len(table)} blocks, but {len(fill)} counts of tokens"


def _prefill_count(table: list[int], fill: list[int], truth: Facts) -> str | None:
    if len(table) == len(truth.table_after_prefill):
        return None
    return f"{len(table)} blocks of {truth.puzzle.block_size} for a prompt of {truth.puzzle.num_prompt_tokens} tokens"


def _prefill_blocks(table: list[int], fill: list[int], truth: Facts) -> str | None:
    return (
        None
        if same(table, truth.table_after_prefill)
        else f"your table is {table}, the free queue was {truth.puzzle.free_queue}"
    )


def _prefill_sum(table: list[int], fill: list[int], truth: Facts) -> str | None:
    in_memory = truth.puzzle.num_prompt_tokens
    return (
        None if sum(fill) == in_memory else f"your counts add up to {sum(fill)}; the step computed {in_memory} tokens"
    )


def _prefill_fill(table: list[int], fill: list[int], truth: Facts) -> str | None:
    return (
        None
        if same(fill, truth.tokens_in_block)
        else f"your counts are {fill}, for blocks of {truth.puzzle.block_size}"
    )


PREFILL = Part(
    "03.3",
    "the table after the prefill, predicted",
    2,
    ("table_after_prefill", "tokens_in_block"),
    _prediction_cases,
    probes.prediction,
    (
        Property(
            "both are lists of numbers, with one entry for each block",
            _prefill(_prefill_shape),
            ("For example table_after_prefill = [4, 1] and tokens_in_block = [4, 2].",),
        ),
        Property(
            "as many blocks as the prompt needs, and not one ahead",
            _prefill(_prefill_count),
            (
                "A block is asked for when a token needs it; the token sampled in this step is written in the next.",
                "Fill one block after the other until the prompt is used up. A partly filled one counts as a block.",
            ),
        ),
        Property(
            "the blocks are those that the free queue gives, in its order",
            _prefill(_prefill_blocks),
            ("Blocks leave the queue at its head; the first one becomes logical block 0.",),
        ),
        Property(
            "the counts add up to the tokens whose K and V are in memory",
            _prefill(_prefill_sum),
            ("The prefill computes the prompt. The token that it samples waits outside.",),
        ),
        Property(
            "every block but the last is full",
            _prefill(_prefill_fill),
            ("Logical block 0 is filled first, then 1, and so on.",),
        ),
    ),
)


def _decode(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return wrong(answer["new_blocks"], facts(case["seed"]))

    return broken


def _decode_shape(new: Any, truth: Facts) -> str | None:
    if type(new) is not list or not all(entry is None or is_int(entry) for entry in new):
        return f"new_blocks is {show(new)}"
    steps = len(truth.new_blocks)
    return None if len(new) == steps else f"new_blocks has {len(new)} entries for {steps} decode steps"


def _decode_ahead(new: list[int | None], truth: Facts) -> str | None:
    early = sum(mine is not None and right is None for mine, right in zip(new, truth.new_blocks, strict=True))
    return (
        f"in {early} of the steps you ask for a block, but the last one still has room for the step's token"
        if early
        else None
    )


def _decode_late(new: list[int | None], truth: Facts) -> str | None:
    missing = sum(mine is None and right is not None for mine, right in zip(new, truth.new_blocks, strict=True))
    return (
        f"in {missing} of the steps a token is written behind the last block's end, and no block was asked for"
        if missing
        else None
    )


def _decode_held(new: list[int | None], truth: Facts) -> str | None:
    held = {*truth.table_after_prefill, *truth.puzzle.neighbour_table}
    again = [block for block in new if block in held]
    return f"block {again[0]} already belongs to a request when that step begins" if again else None


def _decode_which(new: list[int | None], truth: Facts) -> str | None:
    return None if same(new, truth.new_blocks) else f"the steps are right, the blocks are not: {show(new)}"


DECODE = Part(
    "03.4",
    "the blocks of the decode steps, predicted",
    2,
    ("new_blocks",),
    _prediction_cases,
    probes.prediction,
    (
        Property(
            "new_blocks has one entry for each decode step: None, or a block number",
            _decode(_decode_shape),
            ("For example new_blocks = [None, 6, None], for three decode steps.",),
        ),
        Property(
            "no block is asked for while the last one has room",
            _decode(_decode_ahead),
            (
                "Each decode step writes one token: the one sampled in the step before.",
                "Write down how many tokens Z has in memory before each step. When is there no slot left?",
            ),
        ),
        Property(
            "a block is asked for when the last one is full",
            _decode(_decode_late),
            (
                "Each decode step writes one token: the one sampled in the step before.",
                "Write down how many tokens Z has in memory before each step. When is there no slot left?",
            ),
        ),
        Property(
            "a block comes from the free queue",
            _decode(_decode_held),
            ("Cross out of the queue what was taken in the prefill.",),
        ),
        Property(
            "the queue is shared: who asks first gets its head",
            _decode(_decode_which),
            (
                "Z is not alone. B writes a token in each step too, in Z's prefill step as well.",
                "B came first, so in each step B is served before Z. Keep a row for B: when is its last block full?",
            ),
        ),
    ),
)
