"""Part 16.3: an all-reduce that went wrong, in what the ranks of a real step computed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex16.recorded import with_fault
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex16 import probes

FAULTS = ("deaf", "silent")


def right(case: dict) -> list | None:
    """[rank, which of the all-reduces, fault]: what the tool that recorded it did."""
    return case["truth"]


def _case(rng: random.Random, recording: dict, length: int, with_it: bool = True) -> dict:
    """Some all-reduces of a step, one behind the other. ``with_it``: the faulty one among them."""
    ranks, at = recording["ranks"], recording["at"]
    there = len(ranks[0]["parts"])
    truth = None
    if recording["fault"] not in FAULTS:
        first = rng.randrange(max(1, there - length + 1))
    elif with_it:
        first = rng.randint(max(0, at - length + 1), max(0, min(at, there - length)))
        truth = [recording["rank"], at - first, recording["fault"]]
    else:  # behind it all is right again; and so it was before it
        first = at + 1
    span = slice(first, first + length) if first < there else slice(0, at)
    parts, sums = ([rank[name][span] for rank in ranks] for name in ("parts", "sums"))
    return {"parts": parts, "sums": sums, "truth": truth, "model": recording["model"]}


def _cases(rng: random.Random, seed: int) -> list[dict]:
    fixed = random.Random("16.3 always")
    cases = [_case(fixed, one, 3) for one in with_fault(None)[:8:3]]
    cases += [_case(fixed, one, 4) for one in with_fault(*FAULTS)]
    cases += [_case(fixed, one, 40, with_it=False) for one in with_fault(*FAULTS)[:6]]
    cases += [_case(fixed, one, 7) for one in with_fault("table", "heads")[::4]]  # wrong numbers, and right sums
    return [*cases, *twice(_drawn, rng, "16.3")]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(12):
        kinds = FAULTS if i % 3 else (None, "table", "heads", *FAULTS)
        cases.append(_case(rng, rng.choice(with_fault(*kinds)), rng.randint(2, 6 + i), with_it=i % 3 > 0))
    return cases


def _words(case: dict) -> str:
    return f"{len(case['sums'][0])} all-reduces of {len(case['sums'])} ranks ({case['model']})"


def _shape(case: dict, answer: Any) -> str | None:
    good = answer is None or type(answer) is list and len(answer) == 3 and not raised(answer)
    if good and answer is not None:
        good = is_int(answer[0]) and is_int(answer[1]) and type(answer[2]) is str
    return None if good else f"for {_words(case)} wrong_sum gave {show(answer)}"


def _of(wrong: Callable[[list | None, list | None], bool]) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        true = right(case)
        if not wrong(answer, true):
            return None
        return f"for {_words(case)}: expected is {show(true)}, found {show(answer)}"

    return broken


SUMS = Part(
    "16.3",
    "the all-reduce that went wrong",
    2,
    ("wrong_sum",),
    _cases,
    probes.sums,
    (
        Property(
            "wrong_sum returns None, or a rank, the number of an all-reduce, and what went wrong",
            _shape,
            ('(2, 5, "deaf"), for example; all-reduces are counted from 0.',),
        ),
        Property(
            "None where every rank went on with the sum of all parts",
            _of(lambda found, true: true is None and found is not None),
            (
                "The last digits depend on the order of additions: compare with the tolerance of the text.",
                "Whether the parts themselves are right cannot be seen here, and is not asked.",
            ),
        ),
        Property(
            "the all-reduce after which somebody went on with something else",
            _of(lambda found, true: true is not None and (found is None or found[1] != true[1])),
            ("Add the parts of all ranks, number by number, and look at what each went on with.",),
        ),
        Property(
            "whether one rank did not listen, or did not speak",
            _of(lambda found, true: true is not None and found[2] != true[2]),
            ("Where one rank goes on alone, it did not listen. Where all agree on a wrong sum, one was silent.",),
        ),
        Property(
            "which rank it was",
            _of(lambda found, true: true is not None and found[0] != true[0]),
            ("Whose part is missing in the sum on which all agree?",),
        ),
    ),
    kept_back=("truth", "model"),
)
