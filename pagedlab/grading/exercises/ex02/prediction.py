"""Part 02.3: one address there and one back, on a pool that a run has written."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex02.facts import Facts, facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, show
from pagedlab.grading.tasks.ex02 import probes
from pagedlab.grading.tasks.ex02.story import BLOCK_SIZE, NUM_BLOCKS, NUM_LAYERS


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _of(wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        return wrong(answer["key_begins"], answer["value_of"], facts(case["seed"]))

    return broken


def _shape(byte: Any, owner: Any, truth: Facts) -> str | None:
    pair = type(owner) is list and len(owner) == 2 and type(owner[0]) is str and is_int(owner[1])
    return None if is_int(byte) and pair else f"key_begins is {show(byte)} and value_of is {show(owner)}"


def _aligned(byte: int, owner: list, truth: Facts) -> str | None:
    strides, size = truth.puzzle.strides, truth.puzzle.element_size
    end = NUM_LAYERS * strides[0] * size
    if not 0 <= byte < end:
        return f"the pool has the bytes 0 to {end - 1}; your key begins at {byte}"
    head = strides[4] * size
    return None if byte % head == 0 else f"every head's numbers begin at a multiple of {head} bytes; {byte} is none"


def _numbers(byte: int, owner: list, truth: Facts) -> str | None:
    if byte * truth.puzzle.element_size != truth.key_begins:
        return None
    return f"{byte} counts numbers of {truth.puzzle.element_size} bytes"


def _axis(axis: int, hint: str) -> Any:
    """The steps that an address makes along one axis, worked out of the address by the strides before it."""

    def broken(byte: int, owner: list, truth: Facts) -> str | None:
        strides, size = truth.puzzle.strides, truth.puzzle.element_size

        def steps(address: int) -> int:
            rest = address // size
            for stride in strides[:axis]:
                rest %= stride
            return rest // strides[axis]

        return None if steps(byte) == steps(truth.key_begins) else f"byte {byte} lies in {hint} {steps(byte)}"

    return broken


def _owner(byte: int, owner: list, truth: Facts) -> str | None:
    if owner[0] == truth.value_of[0]:
        return None
    return f"you say that the value is {owner[0]}'s; the tables are {truth.puzzle.tables}, of {NUM_BLOCKS} blocks"


def _position(byte: int, owner: list, truth: Facts) -> str | None:
    if owner[1] == truth.value_of[1]:
        return None
    most = truth.puzzle.num_tokens[owner[0]]
    where = f", and only {most} tokens of {owner[0]} are in memory" if owner[1] >= most else ""
    return f"you say position {owner[1]}, for blocks of {BLOCK_SIZE}{where}"


PREDICTION = Part(
    "02.3",
    "one address there, one back, predicted",
    2,
    ("key_begins", "value_of"),
    _cases,
    probes.prediction,
    (
        Property(
            "key_begins is a number, value_of a request and a position",
            _of(_shape),
            ('For example key_begins = 19200 and value_of = ("A", 9).',),
        ),
        Property(
            "a head's numbers begin inside the pool, at a multiple of their length",
            _of(_aligned),
            ("Each stride is a multiple of the next one. Have you turned numbers into bytes only once?",),
        ),
        Property(
            "key_begins counts bytes",
            _of(_numbers),
            ("Strides count numbers. How many bytes does a number take?",),
        ),
        Property("the key lies in its layer", _of(_axis(0, "layer")), ("The first stride leads to the layer.",)),
        Property(
            "it is a key, and no value",
            _of(_axis(1, "half (0: keys, 1: values)")),
            ("Keys are number 0 along the second axis, values number 1.",),
        ),
        Property(
            "the key lies in its physical block",
            _of(_axis(2, "block")),
            (
                "Logical block first, then the table.",
                "Which entry of A's table is it? The first entry is for the positions 0 to 3.",
            ),
        ),
        Property(
            "the key lies at its offset in the block, under its KV head",
            _of(lambda *args: _axis(3, "a block at offset")(*args) or _axis(4, "KV head")(*args)),
            ("The remainder of the position. Heads are counted from 0.",),
        ),
        Property(
            "the value belongs to the request whose table holds its block",
            _of(_owner),
            (
                "Peel the address: divide by bytes, take off the layers, then the half, then count whole blocks.",
                "What is left behind the layer and the keys, divided by the block's stride, is the physical block.",
            ),
        ),
        Property(
            "the value's position counts the tokens before it in that request's text",
            _of(_position),
            (
                "Where in its table does the block stand? What is left behind the block gives the offset.",
                "Place in the table times block size, plus offset.",
            ),
        ),
    ),
)
