"""What a class is to hear on Monday: how many miss which property, part by part, and how the points are spread."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import mean, median
from typing import Any

from pagedlab.grading.class_table import by_learner, file_names, harmless
from pagedlab.grading.classroom import Graded
from pagedlab.grading.grade import IN_THE_NOTEBOOK, CheckResult, Result
from pagedlab.grading.part import EXERCISES, Part, load_exercise
from pagedlab.grading.report import write as write_text

COLUMNS = ("exercise", "part", "title", "property", "missed", "passed", "not reached", "of", "in words")


@dataclass(frozen=True)
class Row:
    """One property of one part. A learner is counted as missing the first property that is broken: those before it are
    passed, those behind it were not reached. ``missed``: who; ``example``: what was said to the first of them."""

    exercise: str
    part: str
    title: str
    property: str
    missed: tuple[str, ...]
    passed: int
    of: int
    example: str

    @property
    def not_reached(self) -> int:
        return self.of - self.passed - len(self.missed)

    @property
    def in_words(self) -> str:
        return f"{len(self.missed)} of {self.of} miss: {self.property}"


def write(graded: list[Graded], out: Path) -> None:
    """Write by_property.csv and report.html into ``out``."""
    learners = by_learner(graded)
    results = {
        name: {one.exercise: one for one in outcomes if isinstance(one, Result)} for name, outcomes in learners.items()
    }
    found = [row for number in EXERCISES for row in _rows(load_exercise(number).name, number, results)]
    rows = sorted(found, key=lambda row: -len(row.missed))  # else in the order of the course
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *map(_fields, rows)])
    write_text(out / "by_property.csv", text.getvalue())
    write_text(out / "report.html", _page(rows, results, learners))


def _fields(row: Row) -> list[Any]:
    values = [row.exercise, row.part, row.title, row.property, len(row.missed), row.passed, row.not_reached, row.of]
    return [harmless(value) for value in [*values, row.in_words]]


def _rows(exercise: str, number: str, results: dict[str, dict[str, Result]]) -> Iterator[Row]:
    handed_in = {name: mine[exercise] for name, mine in results.items() if exercise in mine}
    for part in load_exercise(number).parts if handed_in else ():
        checks = {
            name: check
            for name, one in handed_in.items()
            for check in one.checks
            if check.name == part.name and not check.not_run
        }
        if checks:
            yield from _of_part(exercise, part, checks)


def _of_part(exercise: str, part: Part, checks: dict[str, CheckResult]) -> Iterator[Row]:
    own = [one.name for one in part.properties]
    # Before a part's own properties an answer has to be there; behind them it has to be so in the notebook as well.
    other = dict.fromkeys(check.broken for check in checks.values() if check.broken not in ("", IN_THE_NOTEBOOK, *own))
    order = [*other, *own]
    if any(check.broken == IN_THE_NOTEBOOK for check in checks.values()):
        order.append(IN_THE_NOTEBOOK)
    for at, name in enumerate(order):
        missed = tuple(learner for learner, check in checks.items() if check.broken == name)
        passed = sum(
            not check.broken or (order.index(check.broken) > at if name not in other else check.broken not in other)
            for check in checks.values()
        )
        example = checks[missed[0]].reason if missed else ""
        yield Row(exercise, part.name, part.title, name, missed, passed, len(checks), example)


def _page(rows: list[Row], results: dict[str, dict[str, Result]], learners: dict[str, list[Any]]) -> str:
    import jinja2

    spread = []
    for number in EXERCISES:
        exercise = load_exercise(number)
        points = [mine[exercise.name].earned for mine in results.values() if exercise.name in mine]
        if points:
            count = Counter(points)
            bars = [(value, count[value]) for value in range(max(exercise.points, *points) + 1)]
            spread.append({"name": exercise.name, "of": exercise.points, "count": len(points), "mean": mean(points),
                           "median": median(points), "bars": bars, "most": max(count.values()),
                           "rows": [row for row in rows if row.exercise == exercise.name]})  # fmt: skip
    page = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return page.from_string(files("pagedlab.grading").joinpath("report.html.jinja").read_text(encoding="utf-8")).render(
        first=[row for row in rows if row.missed][:5],
        spread=spread,
        files=file_names(learners),
        num_learners=len(learners),
        refused=[(name, one) for name, outcomes in learners.items() for one in outcomes if not isinstance(one, Result)],
    )
