"""What a process that holds a learner's code is not to know, it is told question by question, and by the judge."""

import random
from dataclasses import replace

import pytest
from mutants.cells import solved

from pagedlab.grading.exercises.ex09.choice import CHOICE
from pagedlab.grading.exercises.ex12.moves import MOVES
from pagedlab.grading.judge import judge
from pagedlab.grading.notebook import Cell

# Looks for the table wherever it may lie in its process, and asks nothing then.
PEEKS = """
def choose(utilizations, limits, target, run):
    import gc, sys
    held = [dict(zip(run.__code__.co_freevars, (cell.cell_contents for cell in run.__closure__)))]
    frame = sys._getframe()
    while frame:
        held.append(frame.f_locals)
        frame = frame.f_back
    cases = [value for names in held for value in names.values() if isinstance(value, dict) and "limits" in value]
    assert cases
    for case in [*cases, *(d for d in gc.get_objects() if isinstance(d, dict))]:
        table = case.get("table")
        if isinstance(table, list) and [len(table), len(table[0])] == [len(utilizations), len(limits)]:
            ran = [(found["preemptions"], i, j) for i, row in enumerate(table) for j, found in enumerate(row)
                   if found and found["at_once"] >= target]
            return min(ran) and (utilizations[min(ran)[1]], limits[min(ran)[2]]) if ran else None
    return None
"""
FOREVER = """
def choose(utilizations, limits, target, run):
    while True:
        run(utilizations[0], limits[0])
"""
# Tries all and says so to nobody: whatever counts runs in its own process is set back.
TRIES_ALL = """
def choose(utilizations, limits, target, run):
    import sys
    ran = {(u, limit): run(u, limit) for u in utilizations for limit in limits}
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            if type(value) is list and len(value) == len(ran):
                value.clear()
        frame = frame.f_back
    good = [(found["preemptions"], pair) for pair, found in ran.items() if found and found["at_once"] >= target]
    return min(good)[1] if good else None
"""
KEEPS_THE_FIRST_RUN = """
kept = []
def choose(utilizations, limits, target, run):
    kept.append(run)
    return kept[0](utilizations[0], limits[0]) and (utilizations[0], limits[0])
"""
OTHERS = "def choose(utilizations, limits, target, run):\n    return run(0.5, 7)"


def judged(answer, part=CHOICE):
    name = part.name
    cells = [
        Cell("code", f"# part {name}\n{answer}", role="learner", part=name),
        Cell("code", f"# check {name}", role="check", part=name),
    ]
    return judge([part], cells, rng=random.Random(7)).verdicts[name]


@pytest.mark.slow
def test_the_solution_asks_and_is_told():
    assert judged(solved("09.2").source).passed


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer, reason",
    [
        (PEEKS, "None means that no setting does"),
        (TRIES_ALL, "no more runs than"),
        (KEEPS_THE_FIRST_RUN, "no call of your code ends in an error"),
        (OTHERS, "no call of your code ends in an error"),
    ],
    ids=["peeks", "tries all", "keeps the first run", "other knobs"],
)
def test_nothing_is_known_that_was_not_asked_and_the_judge_counts(answer, reason):
    verdict = judged(answer)
    assert not verdict.passed and reason in verdict.property, verdict


def test_who_peeks_would_find_the_table_if_it_were_in_the_case():
    assert judged(PEEKS, replace(CHOICE, kept_back=())).passed


def test_who_never_stops_asking_is_stopped():
    verdict = judged(FOREVER, replace(CHOICE, seconds_a_case=1.0))
    assert "it took more than 1 seconds" in verdict.example


def test_a_strange_question_is_answered_with_nothing():
    case = CHOICE.cases(random.Random(0), 0)[0]
    assert CHOICE.tell(case, [1, 0]) == case["table"][1][0]
    for question in (None, [], [0], [0, 9], [-1, 0], [True, 0], ["0", 0], {"0": 1}, [0, 0, 0]):
        assert CHOICE.tell(case, question) is None


@pytest.mark.parametrize("part", [CHOICE, MOVES])
def test_what_is_kept_back_is_in_some_case_and_in_none_that_is_shown(part):
    cases = part.cases(random.Random(0), 0)
    assert part.kept_back
    for key in part.kept_back:
        assert any(key in case for case in cases)
        assert not any(key in part.shown(case) for case in cases)
