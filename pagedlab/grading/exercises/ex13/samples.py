"""Part 13.2: who samples a token at the end of a step."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import raised, show
from pagedlab.grading.tasks.ex13 import probes


def right(case: dict) -> list[str]:
    """As ``V1.sampling`` does: all tokens that a request holds are computed after the step."""
    left = {request["name"]: request["tokens"] - request["computed"] for request in case["requests"]}
    return [name for name, tokens in case["shares"] if tokens >= left[name]]


def _case(requests: list[tuple[int, int, int]], order: list[int] | None = None) -> dict:
    """Of each request: its tokens, how many were computed before the step, how many are in it (0: it is not in it)."""
    names = [chr(65 + i) for i in range(len(requests))]
    held = [{"name": n, "tokens": t, "computed": c} for n, (t, c, _) in zip(names, requests, strict=True)]
    shares = [[n, k] for n, (_, _, k) in zip(names, requests, strict=True) if k]
    return {"requests": held, "shares": [shares[i] for i in order] if order else shares}


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = [
        _case([(9, 8, 1)]),
        _case([(9, 8, 1), (20, 0, 13)]),  # a chunk samples nothing
        _case([(9, 8, 1), (20, 13, 7)]),  # the last chunk does
        _case([(9, 8, 1), (20, 13, 6)]),
        _case([(20, 0, 20), (20, 16, 4)]),
        _case([(20, 19, 1), (20, 18, 1)]),  # one token is not always the last
        _case([(9, 8, 1), (6, 5, 0), (4, 0, 0)]),  # who is not in the step
        _case([(9, 8, 1), (6, 5, 1), (12, 3, 9)], [2, 0, 1]),  # scheduling order
        _case([(9, 9, 0), (6, 5, 1)]),
        _case([(30, 0, 12), (30, 0, 4)]),
        _case([(5, 0, 0)]),
    ]
    return [*cases, *twice(_drawn, rng, "13.2")]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(10):
        requests = []
        for _ in range(1 + i):
            tokens = rng.randint(1, 60)
            computed = rng.choice((tokens - 1, rng.randint(0, tokens - 1)))
            left = tokens - computed
            requests.append((tokens, computed, rng.choice((left, left, max(1, left - 1), rng.randint(0, left)))))
        num_shares = sum(bool(k) for *_, k in requests)
        cases.append(_case(requests, rng.sample(range(num_shares), num_shares)))
    return cases


def _of(wrong: Callable[[list, list], bool]) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        if not wrong(answer, right(case)):
            return None
        held = ", ".join(f"{r['name']} {r['tokens']} tokens, {r['computed']} computed" for r in case["requests"])
        return f"{held[:600]}; shares {show(case['shares'])[:300]}: samples gave {show(answer)}"

    return broken


def _shape(case: dict, answer: Any) -> str | None:
    good = type(answer) is list and not raised(answer) and all(type(name) is str for name in answer)
    return None if good else f"samples gave {show(answer)}"


SAMPLES = Part(
    "13.2",
    "who samples a token at the end of it",
    1,
    ("samples",),
    _cases,
    probes.samples,
    (
        Property("samples returns a list of names", _shape, ('["A", "D"], for example.',)),
        Property(
            "who has tokens left to compute samples nothing",
            _of(lambda answer, true: bool(set(answer) - set(true))),
            ("The token after a chunk of a prompt is known: it is the prompt's next one.",),
        ),
        Property(
            "whoever has computed its last token in this step samples, in scheduling order",
            _of(lambda answer, true: answer != true),
            ("The last chunk of a prompt gives the first token of the answer.", "The order is that of the shares."),
        ),
    ),
)
