"""One part's mutants, held against what its check says and against the list of equivalent ones."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mutants.cells import needed, solved
from mutants.decide import Answers, each_in_a_fork, first_broken, questions
from mutants.listed import Change, change, equivalents
from mutants.operators import mutants
from pagedlab.grading.part import Verdict, load_part

DRAWS = 5


@dataclass
class Row:
    """``by_luck``: killed by some draws and not by the cases that every draw has. ``stale``: listed as equivalent, and
    not made any more, or killed after all."""

    part: str
    made: int = 0
    killed: int = 0
    equivalent: int = 0
    by_luck: list[Change] = field(default_factory=list)
    survivors: list[Change] = field(default_factory=list)
    stale: list[Change] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.by_luck or self.survivors or self.stale)


def all_of(name: str) -> list[tuple[Change, str]]:
    """Every mutant of a part: what it changes, and its source."""
    part = solved(name)
    return [(change(name, part.source, mutant), mutant) for mutant in mutants(part.source, part.lines)]


def row(name: str, workers: int = 2, sample: int | None = None) -> Row:
    """Judge a part's mutants. ``sample``: that many of them, always the same, and of those that are listed, a quarter
    of that, as each of them goes through the cases of every draw."""
    part, solution, listed = load_part(name), solved(name), equivalents(name[:2])
    always, drawn = questions(part, solution.seed, DRAWS)
    made, found = all_of(name), Row(name)
    changes = Counter(one for one, _ in made)  # the same change of the same line may be made at several places
    found.stale = [one for one in listed if one.part == name and one not in changes]
    if sample is not None:
        draw = random.Random(name)
        chosen = draw.sample(made, min(sample, len(made)))
        survivors = [m for m in made if m[0] in listed and m not in chosen]
        made = [*chosen, *draw.sample(survivors, min(-(-sample // 4), len(survivors)))]
    found.made = len(made)
    given = needed(solution.given, [solution.source])
    # Here and not in a fork: what this imports and computes once, every fork has.
    with tempfile.TemporaryDirectory() as folder:
        right = first_broken(part, Answers([given, solution.source]), [*always, *drawn[0]], Path(folder))
    if not right.passed:
        raise AssertionError(f"the solution of {name} loses its points: {right}")

    def work_on(cases: list[Any]) -> Any:
        return lambda job, folder: first_broken(part, Answers([given, job[1]]), cases, folder)

    left = []
    for job, verdict in each_in_a_fork(made, work_on(always), workers):
        found.killed += not verdict.passed
        if verdict.passed:
            left.append(job)
        elif job[0] in listed and changes[job[0]] == 1:
            found.stale.append(job[0])
    everything = [case for cases in drawn for case in cases]
    for (one, _), verdict in each_in_a_fork(left, work_on(everything), workers):
        if not verdict.passed:
            found.by_luck.append(one)
        elif one in listed:
            found.equivalent += 1
        else:
            found.survivors.append(one)
    return found


def passes(name: str, cells: list[str]) -> Verdict:
    """Whether an answer gets past the cases that every draw has."""
    part, solution = load_part(name), solved(name)
    always, _ = questions(part, solution.seed, 2)
    answers = Answers([needed(solution.given, cells), *cells])
    ((_, verdict),) = each_in_a_fork([0], lambda job, folder: first_broken(part, answers, always, folder))
    return verdict
