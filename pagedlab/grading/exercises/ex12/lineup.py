"""Parts 12.4 and 12.5: ten recorded runs, each with another fault. Where does it show, and which is it?"""

from __future__ import annotations

import random

from pagedlab.grading.exercises.ex12.facts import facts
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, show
from pagedlab.grading.tasks.ex12.lineup import NUM_RUNS
from pagedlab.grading.tasks.values import values


def _cases(rng: random.Random, seed: int) -> list[dict]:
    return [{"seed": seed}]


def _numbers(case: dict, answer: dict) -> str | None:
    for what in ("steps", "blocks"):
        value = answer[what]
        if type(value) is not dict or set(value) != set(facts(case["seed"])) or not all(map(is_int, value.values())):
            return f"{what} is {show(value)}"
    return None


def _steps(case: dict, answer: dict) -> str | None:
    wrong = [run for run, truth in facts(case["seed"]).items() if answer["steps"][run] != truth.step]
    if not wrong:
        return None
    run, truth = wrong[0], facts(case["seed"])[wrong[0]]
    when = "before that, a rule is broken already" if answer["steps"][run] > truth.step else "all is well then"
    return f"{len(wrong)} of 10 are not right; {run}: you say step {answer['steps'][run]}, but {when}"


def _blocks(case: dict, answer: dict) -> str | None:
    wrong = [run for run, truth in facts(case["seed"]).items() if answer["blocks"][run] not in truth.blocks]
    if not wrong:
        return None
    return f"{len(wrong)} of 10 are not right; {wrong[0]}: no rule about block {answer['blocks'][wrong[0]]} is broken"


def _named(case: dict, answer: dict) -> str | None:
    faults = answer["faults"]
    if type(faults) is not dict or set(faults) != set(facts(case["seed"])):
        return f"faults is {show(faults)}"
    known = {truth.fault for truth in facts(case["seed"]).values()}
    strange = [name for name in faults.values() if type(name) is not str or name not in known]
    return f"there is no fault called {show(strange[0])}" if strange else None


def _each_once(case: dict, answer: dict) -> str | None:
    names = list(answer["faults"].values())
    twice = next((name for name in names if names.count(name) > 1), None)
    return f"{twice!r} is there {names.count(twice)} times" if twice else None


def _faults(case: dict, answer: dict) -> str | None:
    right = sum(answer["faults"][run] == truth.fault for run, truth in facts(case["seed"]).items())
    return None if right == NUM_RUNS else f"{right} of 10 are right"


WHERE = Part(
    "12.4",
    "ten runs: the step and the block",
    2,
    ("steps", "blocks"),
    _cases,
    values,
    (
        Property(
            "steps and blocks have a number for each of run 1 to run 10",
            _numbers,
            ('For example steps = {"run 1": 3, "run 2": 5, …} and blocks = {"run 1": 7, …}.',),
        ),
        Property(
            "the step is the first one in which a rule is broken",
            _steps,
            (
                "Your checkers can do this for you: watch(trace, wrong_blocks, misreads, false_names, suspicious).",
                "Not the step in which the fault is at work, but the one in which it can be seen for the first time.",
            ),
        ),
        Property(
            "the block is one about which a rule is broken in that step",
            _blocks,
            ("Any of them will do: watch gives all.", "The physical number, not the logical one."),
        ),
    ),
    seconds_to_load=120.0,
)

WHAT = Part(
    "12.5",
    "ten runs: which fault",
    2,
    ("faults",),
    _cases,
    values,
    (
        Property(
            "faults has one of the ten names for each of run 1 to run 10",
            _named,
            ('For example faults = {"run 1": "full hit", "run 2": "old table", …}.',),
        ),
        Property("each name is used once", _each_once, ("Ten runs, ten faults.",)),
        Property(
            "each run has the fault that is in it",
            _faults,
            (
                "Which rule is broken first? That alone leaves one or two faults for each run.",
                "Twice two break the same rule. A token is written onto a token: one of them is where sequences fork. "
                "Owners are counted wrongly: one of them is where a block is shared, one where it is given back.",
                "A request that comes back after it made room: does it count wrongly, or write to wrong places?",
            ),
        ),
    ),
    seconds_to_load=120.0,
)
