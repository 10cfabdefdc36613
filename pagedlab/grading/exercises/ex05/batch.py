"""Part 05.2: the whole batch, as the engine hands it over."""

from __future__ import annotations

import random
from typing import Any

import torch

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex05.attention import close, expected, own_result, some
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import raised, show
from pagedlab.grading.tasks.ex05 import probes
from pagedlab.grading.tasks.ex05.memory import build


def _cases(rng: random.Random, seed: int) -> list[dict]:
    many = random.Random("05.2 many")
    prompt, several = _case(many, "prompt", 0), _case(many, "several", 1)
    prompt |= {"lengths": [70], "queries": [70]}
    several |= {"lengths": [2 + i % 9 for i in range(40)], "queries": [1] * 40}
    long = _case(many, "one", 0) | {"lengths": [600], "block_size": 16, "head_size": 32}
    return [*twice(_drawn, rng, "05.2"), prompt, several, long]


def _drawn(rng: random.Random) -> list[dict]:
    kinds = [("one", 2), ("heads", 3), ("several", 2), ("prompt", 2), ("chunk", 3), ("mixed", 3)]
    return [_case(rng, kind, i) for kind, count in kinds for i in range(count)]


def _case(rng: random.Random, kind: str, i: int) -> dict:
    lengths, queries = [rng.randint(3, 11)], [1]
    if kind == "several":
        lengths, queries = [rng.randint(2, 11) for _ in range(3)], [1, 1, 1]
    elif kind == "prompt":
        queries = lengths[:] = [rng.randint(2, 6)]
    elif kind == "chunk":
        lengths = [rng.randint(6, 11)]
        queries = [rng.randint(2, lengths[0] - 2)]
    elif kind == "mixed":
        lengths = [rng.randint(4, 9) for _ in range(4)]
        queries = [1, 0, lengths[2], rng.randint(2, lengths[3] - 1)]
    one = kind in ("one", "prompt", "chunk", "several")
    return {
        "kind": kind,
        "seed": rng.randrange(1 << 30),
        "lengths": lengths,
        "queries": queries,
        "block_size": (4, 3, 2)[i],
        "kv_heads": 1 if one else (2, 3, 2)[i],
        "group": 1 if one else (2, 2, 3)[i],
        "head_size": rng.choice((8, 16)),
        "loud": 1.0,
        "trend": 0,
        "layout": "NHD",
    }


def _words(case: dict) -> str:
    many = f"{case['kv_heads'] * case['group']} query heads, {case['kv_heads']} KV heads"
    return f"contexts {case['lengths']}, new tokens {case['queries']}, blocks of {case['block_size']}, {many}"


def _shape(case: dict, answer: Any) -> str | None:
    result = answer["result"]
    if raised(result):
        return f"for {_words(case)} it gave {show(result)}"
    right = [sum(case["queries"]), case["kv_heads"] * case["group"], case["head_size"]]
    return None if result[0] == right else f"for a query of shape {right} it gave a tensor of shape {result[0]}"


def _kept(case: dict, answer: Any) -> str | None:
    return f"for {_words(case)} it changed {answer['changed']}" if answer["changed"] else None


def _right(*kinds: str) -> Any:
    def broken(case: dict, answer: Any) -> str | None:
        if case["kind"] not in kinds:
            return None
        right, given = expected(case, build(case), case["head_size"] ** -0.5), answer["result"][1]
        if close(given, right):
            return None
        found = torch.tensor(given, dtype=torch.float64).view(right.shape)
        off = ~((found - right).abs() <= 1e-3 + 1e-3 * right.abs()).all(-1)
        token, head = off.nonzero()[0].tolist()
        begins, rather = (some(numbers[token, head].tolist()) for numbers in (found, right))
        wrong = f"{int(off.sum())} of {off.numel()} heads' rows are wrong"
        return f"for {_words(case)}: row {token}, query head {head} begins with {begins}; expected {rather}; {wrong}"

    return broken


BATCH = Part(
    "05.2",
    "my_attention serves a whole batch",
    4,
    ("my_attention",),
    _cases,
    probes.batch,
    (
        Property(
            "the result has the shape of query",
            _shape,
            (
                "One row a token, one mean of values a query head. torch.empty_like(query) is a good start.",
                "Behind a request's last block its row of block_tables may hold anything: do not read there.",
            ),
        ),
        Property(
            "a request that decodes looks at its whole context",
            _right("one"),
            ("One new token: it sees seq_lens[r] tokens, itself among them. The scale is 1 / sqrt(head size).",),
        ),
        Property(
            "each request reads by its own table, and its own rows of query",
            _right("several"),
            ("query_start_loc[r] to query_start_loc[r + 1] are request r's rows; block_tables[r] is its table.",),
        ),
        Property(
            "a query head reads the KV head of its group",
            _right("heads"),
            (
                "With 4 query heads and 2 KV heads, query heads 0 and 1 read KV head 0, and 2 and 3 read KV head 1.",
                "How many query heads share a KV head? Divide.",
            ),
        ),
        Property(
            "a prompt's token sees itself and what stands before it, nothing behind it",
            _right("prompt"),
            ("The first token of a prompt sees one token, the second two. So each has a length of its own.",),
        ),
        Property(
            "the new tokens of a chunk are the last ones of the context",
            _right("chunk"),
            (
                "With 10 tokens of context and 3 new ones, the new ones stand at positions 7, 8 and 9.",
                "So they see 8, 9 and 10 tokens.",
            ),
        ),
        Property(
            "prompts, chunks and decoding requests go together, and a request without new tokens is left out",
            _right("mixed"),
            ("Go from request to request; one with no rows of query has nothing to do.",),
        ),
        Property(
            "what it is given stays as it was",
            _kept,
            ("The result is a tensor of its own. The query is still needed, and so are the tables.",),
        ),
        Property(
            "each call returns a tensor of its own",
            own_result(_words),
            ("Whoever has the first result still needs it when the second comes. Make a new tensor in each call.",),
        ),
    ),
)
