"""Graded submissions as text for a terminal, as JSON and as JUnit's XML."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

from pagedlab.errors import PagedlabError
from pagedlab.grading.classroom import Graded
from pagedlab.grading.grade import Result


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
    """One line a notebook, and how many there were."""
    width = max(len(one.learner) for one in graded)
    lines = [""]
    for one in graded:
        said = one.outcome
        if isinstance(said, Result):
            lines.append(f"{one.learner:{width}}  {said.exercise:24} {said.earned:3} of {said.points}")
        else:
            lines.append(f"{one.learner:{width}}  not graded: {Path(said.path).name}")
    count = sum(isinstance(one.outcome, Result) for one in graded)
    lines.append(f"{count} of {len(graded)} notebooks graded")
    return "\n".join(lines)


def as_json(graded: list[Graded]) -> str:
    """A list with one object for each notebook: what :class:`Result` holds, or path and reason."""
    data = []
    for one in graded:
        said = one.outcome
        sums = {}
        if isinstance(said, Result):
            sums = {"points": said.points, "earned": said.earned, "points_not_run": said.points_not_run}
        data.append({"learner": one.learner} | asdict(said) | sums)
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def as_junit(graded: list[Graded]) -> str:
    """A test suite for each notebook, a test case for each check; what could not be graded is an error."""
    root = ElementTree.Element("testsuites", name="pagedlab grade")
    for one in graded:
        said = one.outcome
        suite = ElementTree.SubElement(root, "testsuite", name=f"{one.learner}: {Path(said.path).name}")
        if isinstance(said, Result):
            missed = sum(bool(check.reason) for check in said.checks)
            suite.attrib |= {"tests": str(len(said.checks)), "failures": str(missed), "errors": "0"}
            suite.attrib |= {"time": str(said.seconds), "timestamp": said.saved}
            for check in said.checks:
                name = f"{check.name} {check.title} ({check.earned} of {check.points} points)"
                case = ElementTree.SubElement(suite, "testcase", classname=said.exercise, name=name)
                if check.reason:
                    ElementTree.SubElement(case, "failure", message=check.reason)
                if check.not_run:
                    ElementTree.SubElement(case, "skipped", message=check.not_run)
        else:
            suite.attrib |= {"tests": "1", "failures": "0", "errors": "1"}
            case = ElementTree.SubElement(suite, "testcase", classname="pagedlab grade", name="can be graded")
            ElementTree.SubElement(case, "error", message=said.reason)
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
