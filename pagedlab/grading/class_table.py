"""A class's grades: one table (CSV and HTML), and one page of feedback for each learner."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.grading.classroom import Graded
from pagedlab.grading.grade import Result
from pagedlab.grading.part import EXERCISES, PART_NAMES, Exercise, load_exercise
from pagedlab.grading.report import write as write_text

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse } th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #8886 }
td { vertical-align: top } th, td:not(:last-child) { white-space: nowrap }
th:first-child, td:first-child, th:last-child, td:last-child { text-align: left } small { opacity: .8 }
</style></head><body><h1>{{ title }}</h1>{% block body %}{% endblock %}</body></html>
"""
TABLE = """{% extends "page" %}{% block body %}
<table><thead><tr>{% for name in head %}<th scope="col">{{ name }}</th>{% endfor %}</tr></thead><tbody>
{% for row in rows %}<tr>{% for value in row %}<td>
{%- if loop.first %}<a href="feedback/{{ files[value] }}">{{ value }}</a>{% else %}{{ value }}{% endif %}</td>
{%- endfor %}</tr>
{% endfor %}</tbody></table>{% if note %}<p>{{ note }}</p>{% endif %}{% endblock %}
"""
APART = "The total is that of part one of the course. The points of part two are counted apart, beside it."
FEEDBACK = """{% extends "page" %}{% block body %}
{% for one in mine %}
{% if one.checks %}
<h2>{{ one.exercise }}: {{ one.earned }} of {{ one.points }} points</h2>
<p><small>saved {{ one.saved }}, seed {{ one.seed }}, graded in {{ one.seconds }} s</small></p>
<table><tbody>{% for check in one.checks %}
<tr><td>{{ "·" if check.not_run else "✗" if check.reason else "✓" }} {{ check.name }}</td>
<td>{{ check.earned }} of {{ check.points }}{% if check.not_run %}, apart: not run here{% endif %}</td>
<td>{{ check.title }}{% if check.reason %}<br><small>{{ check.reason }}</small>{% endif %}</td></tr>
{% endfor %}</tbody></table>
{% for note in one.notes %}<p><small>note: {{ note }}</small></p>{% endfor %}
{% else %}
<h2>not graded</h2><p>{{ one.reason }}</p>
{% endif %}
{% endfor %}{% endblock %}
"""


def make_folders(out: Path) -> None:
    """Raises PagedlabError where nothing can be written there."""
    try:
        (out / "feedback").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PagedlabError(f"The folder {out} cannot be made: {error.strerror}.") from None


def write(graded: list[Graded], out: Path) -> Path:
    """Write grades.csv, grades.html and feedback/NAME.html into ``out``."""
    make_folders(out)
    learners = by_learner(graded)
    head, rows = table(learners)
    note = APART if "part two" in head and "total" in head else ""
    files = file_names(learners)
    write_text(out / "grades.csv", _as_csv(head, rows))
    write_text(out / "grades.html", _render("table", title="Grades", head=head, rows=rows, files=files, note=note))
    for learner, outcomes in learners.items():
        page = _render("feedback", title=learner, mine=outcomes)
        write_text(out / "feedback" / files[learner], page)
    return out


def by_learner(graded: list[Graded]) -> dict[str, list[Any]]:
    """Each learner's outcomes. A second file for the same exercise is a learner of its own: nobody's is dropped."""
    learners: dict[str, list[Any]] = {}
    for one in graded:
        name, outcome = one.learner, one.outcome
        same = [other for other in learners.get(name, ()) if _exercise(other) == _exercise(outcome)]
        learners.setdefault(f"{name} ({outcome.path})" if same else name, []).append(outcome)
    return dict(sorted(learners.items()))


def table(learners: dict[str, list[Any]]) -> tuple[list[str], list[list[Any]]]:
    """(head, rows): for each exercise its points and those of its checks, then the total of each part of the course,
    and what went wrong."""
    results = [one for outcomes in learners.values() for one in outcomes if isinstance(one, Result)]
    present = {result.exercise[:2] for result in results}
    exercises = [load_exercise(number) for number in EXERCISES if number in present]
    head = ["learner"]
    for exercise in exercises:
        head += [exercise.name, *(part.name for part in exercise.parts)]
    totals = _totals(exercises)
    for name, _, _ in totals:
        head += [name, f"of {name}" if name != "total" else "of"]
    head += ["last saved", "not graded"]
    rows = []
    for learner, outcomes in learners.items():
        results = {outcome.exercise: outcome for outcome in outcomes if isinstance(outcome, Result)}
        row: list[Any] = [learner]
        for exercise in exercises:
            result = results.get(exercise.name)
            earned = {check.name: check.earned for check in result.checks if not check.not_run} if result else {}
            row.append(result.earned if result else "")
            row += [earned.get(part.name, "") for part in exercise.parts]
        for _, number, of in totals:
            row += [sum(result.earned for result in results.values() if result.course_part == number), of]
        row.append(max((result.saved for result in results.values()), default=""))
        row.append("; ".join(outcome.reason for outcome in outcomes if not isinstance(outcome, Result)))
        rows.append(row)
    return head, rows


def _totals(exercises: list[Exercise]) -> list[tuple[str, int, int]]:
    """For each part of the course that is there (part one, where none is): the name of its column, its number, and the
    points to be had here."""
    found = []
    for number, name in PART_NAMES.items():
        mine = [exercise for exercise in exercises if exercise.course_part == number]
        if mine or (number == 1 and not exercises):
            points = sum(part.points for exercise in mine for part in exercise.parts if not part.missing())
            found.append(("total" if number == 1 else name, number, points))
    return found


def _exercise(outcome: Any) -> str:
    return outcome.exercise if isinstance(outcome, Result) else outcome.path


def _as_csv(head: list[str], rows: list[list[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *([harmless(value) for value in row] for row in rows)])
    return text.getvalue()


def harmless(value: Any) -> Any:
    """For a CSV: a name that begins like a formula would be one in a spreadsheet."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def file_names(learners: dict[str, list[Any]]) -> dict[str, str]:
    """A file for each learner that every file system takes, no two the same."""
    names: dict[str, str] = {}
    for learner in learners:
        name = plain = re.sub(r"[^\w.-]+", "_", learner).strip("._")[:80] or "learner"
        count = 1
        while f"{name.lower()}.html" in {other.lower() for other in names.values()}:
            count += 1
            name = f"{plain}_{count}"
        names[learner] = f"{name}.html"
    return names


def _render(template: str, **values: Any) -> str:
    import jinja2

    loader = jinja2.DictLoader({"page": PAGE, "table": TABLE, "feedback": FEEDBACK})
    return jinja2.Environment(loader=loader, autoescape=True).get_template(template).render(**values)
