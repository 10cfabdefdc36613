"""Part 05.3: a context cut into splits, and the splits merged.

Two kernels: of Triton, run in its interpreter, or WGSL texts, run over WebGPU.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import torch

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex05.attention import TOLERANCE, close, some
from pagedlab.grading.part import OfErrors, Part, Property
from pagedlab.grading.plain import raised, show
from pagedlab.grading.tasks.ex05 import probes
from pagedlab.grading.tasks.ex05.memory import build


def _missing() -> str:
    from pagedlab.kernels import NEITHER, available, webgpu

    return "" if available() or webgpu() else NEITHER


def _cases(rng: random.Random, seed: int) -> list[dict]:
    always = random.Random("05.3 always")
    loud = _split_case(always, "even", 4, 2, 2, True) | {"loud": 300.0}
    eight, far = _merge_case(always, "apart"), _merge_case(always, "loud")
    eight |= {"splits": 8}
    far |= {"splits": 4, "apart": 300.0}
    return [*twice(_drawn, rng, "05.3"), loud, eight, far]


def _drawn(rng: random.Random) -> list[dict]:
    # Blocks in the context, splits, blocks a split; and whether the last block is full.
    cuts = {
        "whole": [(1, 1, 1, True), (3, 1, 3, False)],
        "even": [(2, 2, 1, True), (4, 2, 2, True)],
        "short": [(3, 2, 2, True), (4, 4, 1, False), (6, 2, 4, False)],
        "empty": [(2, 4, 1, True), (3, 4, 2, False)],
        "heads": [(3, 4, 1, True), (4, 2, 2, False)],
    }
    cases = [_split_case(rng, kind, *cut) for kind, some_cuts in cuts.items() for cut in some_cuts]
    kinds = ("one", "level", "apart", "apart", "empty", "empty", "heads", "loud", "quiet")
    return cases + [_merge_case(rng, kind) for kind in kinds]


def _split_case(rng: random.Random, kind: str, blocks: int, splits: int, blocks_a_split: int, full: bool) -> dict:
    size = rng.choice((4, 8))
    return {
        "kernel": "split",
        "kind": kind,
        "seed": rng.randrange(1 << 30),
        "lengths": [size * blocks - (0 if full else rng.randrange(1, size))],
        "queries": [1],
        "block_size": size,
        "kv_heads": 2 if kind == "heads" else 1,
        "group": (2 if splits == 4 else 3) if kind == "heads" else 1,
        "head_size": rng.choice((16, 32)),
        "loud": 1.0,
        "trend": 0,
        "layout": rng.choice(("NHD", "HND", "gaps")),
        "scale": rng.choice((0.25, 0.5)),
        "splits": splits,
        "blocks_a_split": blocks_a_split,
    }


def _merge_case(rng: random.Random, kind: str) -> dict:
    splits = 1 if kind == "one" else rng.choice((2, 4))
    return {
        "kernel": "merge",
        "kind": kind,
        "seed": rng.randrange(1 << 30),
        "heads": 3 if kind == "heads" else 1,
        "splits": splits,
        "head_size": rng.choice((16, 32)),
        "apart": {"one": 0.0, "level": 0.0}.get(kind, 2.0),
        "level": {"loud": 200.0, "quiet": -200.0}.get(kind, 0.5),
        "empty": list(range(rng.randint(1, splits - 1), splits)) if kind == "empty" else [],
    }


def _words(case: dict) -> str:
    if case["kernel"] == "merge":
        return f"{case['splits']} splits, largest {_rounded(probes.parts(case)[1][0].tolist())}"
    table, size = build(case).tables[0], case["block_size"]
    cut = f"{case['splits']} splits of {case['blocks_a_split']} blocks"
    return f"{case['lengths'][0]} tokens in blocks of {size}, table {table}, {cut}"


def _rounded(row: list[float]) -> list[float]:
    return [round(x, 3) for x in row]


def _ran(case: dict, answer: Any) -> str | None:
    if not raised(answer["ran"]):
        return None
    return OfErrors(f"{case['kernel']}_kernel, {_words(case)}: {show(answer['ran'])}")


def _places(case: dict) -> Iterator[tuple[int, int, float, float, torch.Tensor]]:
    """For each query head and split: largest score, sum and weighted sum, in float64."""
    memory, size = build(case), case["block_size"]
    position = torch.arange(case["lengths"][0])
    blocks = torch.tensor(memory.tables[0])[position // size]
    for head in range(memory.query.shape[1]):
        place = blocks, position % size, head // case["group"]
        scores = memory.key[place].double() @ memory.query[0, head].double() * case["scale"]
        values, owner = memory.value[place].double(), position // size // case["blocks_a_split"]
        for split in range(case["splits"]):
            mine, of = scores[owner == split], values[owner == split]
            if not len(mine):
                yield head, split, -math.inf, 0.0, torch.zeros(values.shape[1]).double()
                continue
            weights = torch.exp(mine - mine.max())
            yield head, split, float(mine.max()), float(weights.sum()), weights @ of


def _written(case: dict, answer: Any) -> str | None:
    if case["kernel"] != "split":
        return None
    for name in ("partial", "largest", "total"):
        if missing := sum(x != x for x in answer[name]):
            return f"{_words(case)}: {missing} of {len(answer[name])} numbers of {name} were not written, or are NaN"
    return None


def _split(result: str, *kinds: str) -> Any:
    """One of the three results, in every (head, split) of these kinds of cases."""

    def broken(case: dict, answer: Any) -> str | None:
        if case["kernel"] != "split" or case["kind"] not in kinds:
            return None
        for head, split, largest, total, partial in _places(case):
            at, width = head * case["splits"] + split, case["head_size"]
            where = f"{_words(case)}: {result} of head {head}, split {split}"
            if result == "partial":
                found = answer["partial"][at * width : (at + 1) * width]
                if not close(found, partial):
                    return f"{where} begins with {some(found)}; expected {some(partial.tolist())}"
                continue
            found, right = answer[result][at], largest if result == "largest" else total
            near = math.isfinite(right) and abs(found - right) <= TOLERANCE + TOLERANCE * abs(right)
            if not (found == right or near):
                return f"{where} is {found:.3f}; expected {right:.3f}"
        return None

    return broken


def _merged(*kinds: str) -> Any:
    def broken(case: dict, answer: Any) -> str | None:
        if case["kernel"] != "merge" or case["kind"] not in kinds:
            return None
        partial, largest, total = (part.double() for part in probes.parts(case))
        weights = torch.exp(largest - largest.max(1, keepdim=True).values)
        right = (weights[..., None] * partial).sum(1) / (weights * total).sum(1, keepdim=True)
        width = case["head_size"]
        for head, row in enumerate(right):
            found = answer["output"][head * width : (head + 1) * width]
            if not close(found, row):
                begins = f"head {head} begins with {some(found)}; expected {some(row.tolist())}"
                return f"{_words(case)}: output of {begins}"
        return None

    return broken


ALL = ("whole", "even", "short", "empty", "heads")

KERNEL = Part(
    "05.3",
    "split_kernel cuts a context, merge_kernel puts it together",
    4,
    ("split_kernel", "merge_kernel"),
    _cases,
    probes.kernels,
    (
        Property(
            "the kernels run, and touch only what they are given",
            _ran,
            (
                "In Triton use tl.load, tl.store, tl.sum, tl.max, tl.exp, tl.minimum, tl.cdiv, tl.arange; in WGSL "
                "array[index], min, max, exp, and 1u for a whole number.",
                "The table has one entry for each block of the context. Does a program ask for one behind?",
            ),
        ),
        Property(
            "every program of split_kernel leaves its three results",
            _written,
            ("How many results lie before those of this head, and of this split in it?",),
        ),
        Property(
            "with one split, largest is that of the whole context",
            _split("largest", "whole"),
            ("Split 0 starts at logical block 0. What does the loop keep in m?",),
        ),
        Property(
            "a split goes over its own blocks, and over all of them",
            _split("largest", "even"),
            ("How many blocks lie in the splits before this one?",),
        ),
        Property(
            "the last split ends where the context ends",
            _split("largest", "short"),
            ("Of two ends, the split's own and the context's, which one comes first?",),
        ),
        Property(
            "a split without blocks leaves minus infinity",
            _split("largest", "empty"),
            ("Its loop makes no round. What is in m then?",),
        ),
        Property(
            "each query head has a row of its own",
            _split("largest", "heads"),
            ("How many splits has a head? tl.num_programs(1) tells, in WGSL programs.y.",),
        ),
        Property(
            "total is the sum of e^(score − largest)",
            _split("total", *ALL),
            ("The loop keeps it up to date. Is it stored where total has its place, as it is?",),
        ),
        Property(
            "partial is the weighted sum, not yet divided by total",
            _split("partial", *ALL),
            ("HEAD_SIZE numbers for each result. The merge divides, once for all splits.",),
        ),
        Property(
            "merge_kernel gives one split's weighted mean",
            _merged("one"),
            ("With a single split there is nothing to merge: what is missing from a weighted sum to be a mean?",),
        ),
        Property(
            "splits with the same largest score are added up",
            _merged("level"),
            ("Sums add to sums, weighted sums to weighted sums. Divide once, at the end.",),
        ),
        Property(
            "splits with different largest scores are measured from the same one before they are added",
            _merged("apart"),
            (
                "Each split's sums were measured from its own largest score. What was the factor in part 1?",
                "Two things of every split have to be multiplied with its factor.",
            ),
        ),
        Property(
            "a split without blocks counts for nothing",
            _merged("empty"),
            ("Its largest is minus infinity. What is its factor, and what must not be computed with it?",),
        ),
        Property(
            "each query head merges its own splits",
            _merged("heads"),
            ("Which results are this head's? Program id 0 is the query head here, too.",),
        ),
        Property(
            "scores far from 0 neither overflow nor vanish",
            _merged("loud", "quiet"),
            ("e^200 is too much for float32, and e^−200 too little. From which number are all splits measured?",),
        ),
    ),
    missing=_missing,
    seconds_a_case=30.0,
)
