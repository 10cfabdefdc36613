"""Part 13.1: the tokens of each request in a step."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pagedlab.engine.scheduler import Scheduler
from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex13 import probes


class RoomForAll:
    """A manager with so much memory that nobody has to wait for it."""

    def get_computed_blocks(self, request: Any) -> tuple[list, int]:
        return [], request.found

    def allocate_slots(self, request: Any, num_new_tokens: int, **_: Any) -> list:
        return []

    def get_block_ids(self, request_id: str) -> list:
        return []


def right(case: dict) -> list[list]:
    """By the package's own scheduler."""
    scheduler = Scheduler(
        RoomForAll(), max_num_seqs=case["seats"], max_num_batched_tokens=case["budget"], max_model_len=1 << 30,
        enable_chunked_prefill=case["chunked"],
    )  # fmt: skip
    for request in case["running"]:
        scheduler.running.append(_request(request, "running", request["computed"]))
    for request in case["waiting"]:
        scheduler.waiting.append(_request(request, "waiting", 0))
    return [[name, tokens] for name, tokens in scheduler.schedule().num_scheduled_tokens.items()]


def _request(request: dict, status: str, computed: int) -> SimpleNamespace:
    return SimpleNamespace(
        request_id=request["name"], num_tokens=request["tokens"], num_computed_tokens=computed, status=status,
        found=request.get("found", 0), num_cached_tokens=0,
    )  # fmt: skip


def _case(running: list, waiting: list, budget: int, seats: int = 8, chunked: bool = True) -> dict:
    """``running``: of each its tokens and how many are computed; ``waiting``: its tokens and how many it would find."""
    names = [chr(65 + i) for i in range(len(running) + len(waiting))]
    behind = names[len(running) :]
    return {
        "running": [{"name": n, "tokens": t, "computed": c} for n, (t, c) in zip(names, running, strict=False)],
        "waiting": [{"name": n, "tokens": t, "found": f} for n, (t, f) in zip(behind, waiting, strict=True)],
        "budget": budget,
        "seats": seats,
        "chunked": chunked,
    }


def _cases(rng: random.Random, seed: int) -> list[dict]:
    decoding = [(9, 8), (6, 5), (14, 13)]
    cases = [
        _case([(9, 8)], [], 8),
        _case(decoding, [(20, 0)], 16),  # a chunk of what is left
        _case(decoding, [(20, 0)], 16, chunked=False),  # it waits
        _case(decoding, [(13, 0)], 16, chunked=False),  # just enough
        _case(decoding, [(14, 0)], 16, chunked=False),  # one too many
        _case(decoding, [(20, 16)], 16, chunked=False),  # the rest is found
        _case(decoding, [(20, 16)], 16),
        _case([(9, 8), (40, 12), (6, 5)], [(4, 0)], 16),  # a prompt in the middle takes what is there
        _case([(40, 12), (9, 8), (6, 5)], [], 16),  # the first takes it all, those behind it get nothing
        _case([(40, 38), (9, 8)], [(30, 0), (5, 0)], 16),
        _case([(9, 8)], [(3, 0), (4, 0), (5, 0)], 16),
        _case([(9, 8)], [(3, 0), (4, 0), (5, 0)], 8),
        _case([(9, 8)], [(3, 0), (4, 0), (5, 0)], 8, chunked=False),
        _case([(9, 8)], [(30, 0), (4, 0)], 16, chunked=False),  # nobody overtakes
        _case(decoding, [(3, 0), (4, 0)], 16, seats=4),
        _case(decoding, [(3, 0)], 16, seats=3),
        _case(decoding, [(3, 0)], 3),  # nothing is left
        _case(decoding, [(3, 0)], 3, chunked=False),
        _case(decoding, [], 2),  # more run than there are tokens
        _case([(9, 9), (6, 5)], [(4, 0)], 16, seats=3),  # one has nothing to compute, and keeps its seat
        _case([(9, 9), (6, 5)], [(4, 0)], 16, seats=2),
        _case([], [(50, 0), (5, 0)], 16),
        _case([], [(16, 0), (5, 0)], 16),
        _case([], [(16, 0), (5, 0)], 16, chunked=False),
        _case([], [(33, 32), (33, 32), (17, 16)], 2),
        _case([], [], 4),
        _case([(100, 20)], [], 64, chunked=False),  # who runs may go on in pieces: only who comes is asked for all
    ]
    return [*cases, *twice(_drawn, rng, "13.1")]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(24):
        running = [_held(rng, rng.random() < 0.25) for _ in range(rng.randint(0, 2 + i // 4))]
        waiting = [_coming(rng) for _ in range(rng.randint(0, 4))]
        budget = rng.choice((len(running) + 1, rng.randint(1, 12), rng.randint(8, 64), rng.randint(30, 200)))
        seats = max(1, len(running)) + rng.choice((0, 1, 2, 8))
        cases.append(_case(running, waiting, budget, seats, rng.random() < 0.6))
    return cases


def _held(rng: random.Random, in_its_prompt: bool) -> tuple[int, int]:
    tokens = rng.randint(2, 80)
    return (tokens, rng.randint(1, tokens - 1)) if in_its_prompt else (tokens, tokens - 1)


def _coming(rng: random.Random) -> tuple[int, int]:
    tokens = rng.randint(1, 60)
    return tokens, rng.choice((0, 0, 4 * ((tokens - 1) // 4), 4 * rng.randint(0, (tokens - 1) // 4)))


def _story(case: dict) -> str:
    running = ", ".join(f"{r['name']} {r['tokens']} tokens, {r['computed']} computed" for r in case["running"])
    waiting = ", ".join(f"{r['name']} {r['tokens']} tokens, {r['found']} found" for r in case["waiting"])
    knobs = f"budget {case['budget']}, {case['seats']} seats, {'in chunks' if case['chunked'] else 'no chunks'}"
    return f"{knobs}; running: {running or 'nobody'}; waiting: {waiting or 'nobody'}"


def _of(wrong: Callable[[dict, list, list], bool]) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        expected = right(case)
        if not wrong(case, answer, expected):
            return None
        return f"{_story(case)[:700]}: step gave {show(answer)}"

    return broken


def _shape(case: dict, answer: Any) -> str | None:
    good = type(answer) is list and not raised(answer)
    known = {request["name"] for request in (*case["running"], *case["waiting"])}
    for pair in answer if good else ():
        good = good and type(pair) is list and len(pair) == 2 and type(pair[0]) is str and is_int(pair[1], 1)
        good = good and pair[0] in known
        known = known - {pair[0]} if good else known
    return None if good else f"{_story(case)[:700]}: step gave {show(answer)}"


def _running(case: dict, pairs: list) -> list:
    names = [request["name"] for request in case["running"]]
    return [pair for pair in pairs if pair[0] in names]


def _waiting(case: dict, pairs: list) -> list:
    names = [request["name"] for request in case["waiting"]]
    return [pair for pair in pairs if pair[0] in names]


STEP = Part(
    "13.1",
    "the tokens of each request in a step",
    4,
    ("step",),
    _cases,
    probes.step,
    (
        Property(
            "step returns pairs of a name and how many tokens, each at least one and each name once",
            _shape,
            ('[("A", 1), ("D", 13)], for example.', "Who gets nothing is left out."),
        ),
        Property(
            "a step has no more tokens than its budget",
            _of(lambda case, answer, true: sum(tokens for _, tokens in answer) > case["budget"]),
            ("What the first ones take is not there for the others.",),
        ),
        Property(
            "those who run come first, in their order, and take what they have to compute as far as it lasts",
            _of(lambda case, answer, true: answer[: len(_running(case, true))] != _running(case, true)
                or _running(case, answer) != _running(case, true)),
            (
                "One who decodes has one token to compute; one in the middle of its prompt has many, and may take all.",
                "Tokens to compute: those that it holds, without those that are computed. It may be none.",
            ),
        ),
        Property(
            "without chunks a request comes in with all that it has to compute, or waits",
            _of(lambda case, answer, true: not case["chunked"] and _too_little(case, answer)),
            ("Compare what it has to compute with what is left of the budget, before you cut it.",),
        ),
        Property(
            "then those who wait come in, in their order, as far as budget and seats last",
            _of(lambda case, answer, true: answer != true),
            (
                "What is found in memory is not computed, and takes nothing of the budget.",
                "Everybody who runs has a seat, also one who has nothing to compute in this step.",
                "Where the first of them cannot come in, those behind it wait too.",
                "With chunks it takes what is left, and that is at least one token.",
            ),
        ),
    ),
)  # fmt: skip


def _too_little(case: dict, answer: list) -> bool:
    """Does one come in with a piece of what it has to compute?"""
    whole = {request["name"]: request["tokens"] - request["found"] for request in case["waiting"]}
    return any(tokens < whole[name] for name, tokens in _waiting(case, answer))
