"""Part 07.5: what becomes of the free queue when a request comes back to a prefix, predicted."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex07.facts import Facts, facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.ex07.story import BLOCK_SIZE
from pagedlab.grading.tasks.values import values


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return wrong(answer["hits"], answer["new_blocks"], answer["forgotten"], facts(case["seed"]))

    return broken


def _shape(hits: Any, new: Any, forgotten: Any, truth: Facts) -> str | None:
    if is_ints(hits) and is_ints(new) and is_ints(forgotten):
        return None
    return f"hits is {show(hits)}, new_blocks is {show(new)}, forgotten is {show(forgotten)}"


def _num_hits(hits: list, new: list, forgotten: list, truth: Facts) -> str | None:
    if len(hits) == len(truth.hits):
        return None
    return f"{len(hits)} hits, of blocks of {BLOCK_SIZE}, for {truth.puzzle.num_shared} tokens in common"


def _hits(hits: list, new: list, forgotten: list, truth: Facts) -> str | None:
    return None if same(hits, truth.hits) else f"your hits are {hits}, in the order of Z's table"


def _num_new(hits: list, new: list, forgotten: list, truth: Facts) -> str | None:
    if len(new) == len(truth.new_blocks):
        return None
    return f"{len(hits)} blocks found and {len(new)} new ones, for {truth.puzzle.num_prompt_tokens} tokens"


def _again(hits: list, new: list, forgotten: list, truth: Facts) -> str | None:
    both = [block for block in new if block in hits]
    return f"block {both[0]} is found and handed out" if both else None


def _new(hits: list, new: list, forgotten: list, truth: Facts) -> str | None:
    return None if same(new, truth.new_blocks) else f"your new blocks are {new}, the queue was {truth.puzzle.free}"


def _forgotten(hits: list, new: list, forgotten: list, truth: Facts) -> str | None:
    return None if same(forgotten, truth.forgotten) else f"you say that {forgotten} lose their names"


PREDICTION = Part(
    "07.5",
    "who is found, who is handed out, who is forgotten, predicted",
    2,
    ("hits", "new_blocks", "forgotten"),
    _cases,
    values,
    (
        Property(
            "all three are lists of block numbers",
            _of(_shape),
            ("For example hits = [1], new_blocks = [6, 2] and forgotten = [2].",),
        ),
        Property(
            "a hit is a whole block that both have in common",
            _of(_num_hits),
            (
                "Where the tokens part in the middle of a block, that block is no hit.",
                "Z and A begin alike: how many whole blocks do these tokens fill?",
            ),
        ),
        Property(
            "the hits are the blocks that hold the start of A, in Z's order",
            _of(_hits),
            ("Logical block 0 first. In the queue they stand the other way round: the last was freed first.",),
        ),
        Property(
            "the rest of the prompt gets new blocks, as many as it needs",
            _of(_num_new),
            ("How many blocks do all tokens of the prompt need? Some of them are there already.",),
        ),
        Property(
            "what was found has left the queue before blocks are handed out",
            _of(_again),
            ("Cross the hits out of the queue first.",),
        ),
        Property(
            "new blocks come from the head of what is left of the queue",
            _of(_new),
            ("In the order of the queue, with a name or without.",),
        ),
        Property(
            "those that had a name and are handed out lose it",
            _of(_forgotten),
            ("Go through your new blocks in their order: which of them had a name? Found blocks keep theirs.",),
        ),
    ),
)
