"""Graded submissions as text for a terminal, as JSON and as JUnit's XML."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

from pagedlab.errors import PagedlabError
from pagedlab.grading.classroom import Graded
from pagedlab.grading.grade import Result
from pagedlab.grading.part import PART_NAMES


def as_text(result: Result) -> str:
    """One line a check, why where points are missing, the total, and what was put right."""
    lines = [f"{result.path}  ({result.exercise}, saved {result.saved})"]
    for check in result.checks:
        if check.not_run:
            lines.append(f"  · {check.name}  {check.points} apart  {check.title}: not run here: {check.not_run}")
            continue
        mark = "✗" if check.reason else "✓"
        lines.append(f"  {mark} {check.name}  {check.earned} of {check.points}  {check.title}")
        if check.reason:
            lines.append(f"      {check.reason}")
    lines += [f"  note: {note}" for note in result.notes]
    apart = f" ({result.points_not_run} more were not run here)" if result.points_not_run else ""
    lines.append(f"  {result.earned} of {result.points} points{apart}, graded in {result.seconds:.1f} s")
    return "\n".join(lines)


def closing_lines(graded: list[Graded]) -> str:
    """One line a notebook, how many there were, and each learner's points in each part of the course."""
    width = max(len(one.learner) for one in graded)
    lines = [""]
    lines += [line(one, width) for one in graded]
    count = sum(isinstance(one.outcome, Result) for one in graded)
    lines.append(f"{count} of {len(graded)} notebooks graded")
    sums: dict[str, list[Result]] = {}
    for one in graded:
        if isinstance(one.outcome, Result):
            sums.setdefault(one.learner, []).append(one.outcome)
    if any(result.course_part > 1 for results in sums.values() for result in results):
        lines += [f"{learner}: {in_parts(results)}" for learner, results in sums.items()]
    return "\n".join(lines)


def line(one: Graded, width: int = 0) -> str:
    """A notebook's line: whose it is, and its points."""
    outcome = one.outcome
    if isinstance(outcome, Result):
        return f"{one.learner:{width}}  {outcome.exercise:24} {outcome.earned:3} of {outcome.points}"
    return f"{one.learner:{width}}  not graded: {Path(outcome.path).name}"


def in_parts(results: list[Result]) -> str:
    """The points of each part of the course: "92 of 100 points in part one. 8 of 8 points in part two, which is counted
    apart."."""
    sentences = []
    for number, name in PART_NAMES.items():
        mine = [result for result in results if result.course_part == number]
        if mine:
            points = f"{sum(r.earned for r in mine)} of {sum(r.points for r in mine)} points in {name}"
            sentences.append(f"{points}, which is counted apart." if number > 1 else f"{points}.")
    return " ".join(sentences)


def as_json(graded: list[Graded]) -> str:
    """A list with one object for each notebook: what :class:`Result` holds, or path and reason."""
    data = []
    for one in graded:
        outcome = one.outcome
        sums = {}
        if isinstance(outcome, Result):
            sums = {"points": outcome.points, "earned": outcome.earned, "points_not_run": outcome.points_not_run}
            sums["course_part"] = outcome.course_part
        data.append({"learner": one.learner} | asdict(outcome) | sums)
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def as_junit(graded: list[Graded]) -> str:
    """A test suite for each notebook, a test case for each check; what could not be graded is an error."""
    root = ElementTree.Element("testsuites", name="pagedlab grade")
    for one in graded:
        outcome = one.outcome
        suite = ElementTree.SubElement(root, "testsuite", name=f"{one.learner}: {Path(outcome.path).name}")
        if isinstance(outcome, Result):
            missed = sum(bool(check.reason) for check in outcome.checks)
            suite.attrib |= {"tests": str(len(outcome.checks)), "failures": str(missed), "errors": "0"}
            suite.attrib |= {"time": str(outcome.seconds), "timestamp": outcome.saved}
            for check in outcome.checks:
                name = f"{check.name} {check.title} ({check.earned} of {check.points} points)"
                case = ElementTree.SubElement(suite, "testcase", classname=outcome.exercise, name=name)
                if check.reason:
                    ElementTree.SubElement(case, "failure", message=check.reason)
                if check.not_run:
                    ElementTree.SubElement(case, "skipped", message=check.not_run)
        else:
            suite.attrib |= {"tests": "1", "failures": "0", "errors": "1"}
            case = ElementTree.SubElement(suite, "testcase", classname="pagedlab grade", name="can be graded")
            ElementTree.SubElement(case, "error", message=outcome.reason)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def check_writable(path: str | Path | None) -> None:
    """Before anything is graded: can the result go there? Raises PagedlabError where it cannot."""
    if path is not None:
        try:
            Path(path).open("a").close()
        except OSError as error:
            raise _cannot_write(path, error) from None


def write(path: str | Path, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise _cannot_write(path, error) from None


def _cannot_write(path: str | Path, error: OSError) -> PagedlabError:
    return PagedlabError(f"The result could not be written to {path}: {error.strerror}.")
