"""Part 05.3: the same as a Triton kernel, run in Triton's interpreter."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex05.attention import close, expected, some
from pagedlab.grading.part import OfErrors, Part, Property
from pagedlab.grading.plain import raised, show
from pagedlab.grading.tasks.ex05 import probes
from pagedlab.grading.tasks.ex05.memory import build


def _missing() -> str:
    from pagedlab.kernels import WHY_NOT, available

    return "" if available() else WHY_NOT


def _cases(rng: random.Random, seed: int) -> list[dict]:
    kinds = ("block", "tail", "table", "rising", "heads", "group", "layout", "loud")
    return [_case(rng, kind) for kind in kinds for _ in range(3)]


def _case(rng: random.Random, kind: str) -> dict:
    size, blocks = rng.choice((4, 8, 16)), 1 if kind in ("block", "tail") else rng.randint(2, 4)
    length = size * blocks
    if kind != "block":
        length -= rng.randrange(1, size)
    return {
        "kind": kind,
        "seed": rng.randrange(1 << 30),
        "lengths": [length],
        "queries": [1],
        "block_size": size,
        "kv_heads": 2 if kind in ("heads", "group", "layout") else 1,
        "group": 2 if kind in ("group", "layout") else 1,
        "head_size": rng.choice((16, 32)),
        "loud": 300.0 if kind == "loud" else 1.0,
        "rising": kind == "rising",
        "layout": rng.choice(("HND", "gaps")) if kind == "layout" else "NHD",
    }


def _told(case: dict) -> str:
    many = f"{case['kv_heads'] * case['group']} query heads, {case['kv_heads']} KV heads"
    where = "" if case["layout"] == "NHD" else f", strides {build(case).key.stride()[:3]}"
    table = build(case).tables[0]
    return f"{case['lengths'][0]} tokens in blocks of {case['block_size']}, table {table}, {many}{where}"


def _ran(case: dict, answer: Any) -> str | None:
    return OfErrors(f"for {_told(case)} it gave {show(answer)}") if raised(answer) else None


def _written(case: dict, answer: Any) -> str | None:
    missing = sum(x != x for x in answer[1])
    if case["kind"] != "block" or not missing:
        return None
    return f"for {_told(case)} {missing} of {len(answer[1])} numbers of output were not written, or are NaN"


def _right(*kinds: str) -> Any:
    def broken(case: dict, answer: Any) -> str | None:
        if case["kind"] not in kinds or close(answer[1], expected(case, build(case), case["head_size"] ** -0.5)):
            return None
        return f"for {_told(case)} the output begins with {some(answer[1])}, and that is not attention"

    return broken


KERNEL = Part(
    "05.3",
    "my_kernel reads scattered blocks, in Triton",
    4,
    ("my_kernel",),
    _cases,
    probes.kernel,
    (
        Property(
            "the kernel runs",
            _ran,
            (
                "Inside a kernel use tl.load, tl.store, tl.sum, tl.max, tl.exp, tl.maximum, tl.where, tl.cdiv.",
                "A block of numbers keeps its shape in a loop: begin with tl.zeros([HEAD_SIZE], tl.float32).",
            ),
        ),
        Property(
            "every program writes the numbers of its query head",
            _written,
            ("output + head * HEAD_SIZE + dim are the places of this program's query head.",),
        ),
        Property(
            "one full block gives attention",
            _right("block"),
            (
                "A tile of addresses: offset[:, None] * stride_token + dim[None, :], behind the block's place.",
                "tl.sum(k * q[None, :], axis=1) * scale gives one score a token.",
            ),
        ),
        Property(
            "places behind the last token count for nothing",
            _right("tail"),
            (
                "Mask the loads of K and of V (with other=0.0), and give masked scores -inf.",
                "A place is real while logical block * BLOCK_SIZE + offset < length.",
            ),
        ),
        Property(
            "each block is found by the table",
            _right("table"),
            ("tl.load(table + logical_block) is the physical block. Memory knows of no other number.",),
        ),
        Property(
            "a new largest score shrinks what was added up before",
            _right("rising"),
            ("The sum and the weighted sum, both, times e^(old largest − new largest).",),
        ),
        Property(
            "each query head reads its own KV head",
            _right("heads"),
            ("KV heads lie stride_head numbers apart.",),
        ),
        Property(
            "query heads of a group share a KV head",
            _right("group"),
            ("head // GROUP.",),
        ),
        Property(
            "another layout only has other strides",
            _right("layout"),
            ("Do not work strides out of BLOCK_SIZE and HEAD_SIZE. Take the three that you are given.",),
        ),
        Property(
            "large scores do not overflow",
            _right("loud"),
            ("e^(score − largest) is 1 at most.",),
        ),
    ),
    missing=_missing,
    seconds_a_case=20.0,
)
