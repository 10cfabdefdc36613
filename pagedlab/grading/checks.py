"""The check cells of a notebook: one line, a tick or a cross, and an error after a cross.

nbval compares that one line with the reference. What the learner's code prints while it is being checked is kept
apart, so that a right answer that prints is still right.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.grading.own_code import ANSWERS, Refusing, not_own
from pagedlab.grading.part import Part, Verdict, ask_here, examine, load_exercise, load_part
from pagedlab.grading.plain import show
from pagedlab.terminal import printable_lines

_verdicts: dict[str, Verdict] = {}  # of this kernel, by part
_broken: dict[tuple[str, str], int] = {}  # how often a part's property was found broken, for warmer hints


class CheckFailed(AssertionError):
    """Raised after a cross. Shows as its own words, without the grader's stack."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for this
        return str(self).splitlines()


def check(name: str, *objects: Any, seed: int = 0) -> None:
    """Check a part with fresh random cases and print the verdict on one line.

    ``name``: "03.1"; ``objects``: what the part asks the learner to define, in that order. Where the machine lacks
    what the part needs, the line says so, and nothing is checked. Raises CheckFailed where a property is broken, with
    a small example and a hint, and PagedlabError for a part or a number of objects that cannot be right.
    """
    part = load_part(name)
    if len(objects) != len(part.needs):
        raise PagedlabError(
            f"check({name!r}) takes {', '.join(part.needs)} after the part's name; got {len(objects)} objects."
        )
    if part.missing():
        print(not_here_line(part))
        return
    cases = part.cases(random.Random(), seed)
    named = dict(zip(part.needs, objects, strict=True))
    with Refusing(ANSWERS.get(name, ())) as refusing:
        answers, printed = _ask(part, named, cases)
    verdict = not_own(refusing.found) if refusing.found else examine(part, cases, answers)
    _verdicts[name] = verdict
    print(verdict_line(part, verdict))
    if not verdict.passed:
        raise CheckFailed(_explanation(part, verdict, printed))


def verdict_line(part: Part, verdict: Verdict) -> str:
    if verdict.passed:
        return f"✓ {part.name} {part.title} ({part.points} points)"
    return f"✗ {part.name} {part.title}: {verdict.property}"


def not_here_line(part: Part) -> str:
    return f"· {part.name} {part.title}: not run here: {part.missing()} ({part.points} points, counted apart)"


def report(number: str) -> None:
    """Print what this kernel has seen of an exercise so far. The grade itself is given by ``pagedlab grade``."""
    exercise = load_exercise(number)
    earned = possible = 0
    for part in exercise.parts:
        if part.missing():
            print(not_here_line(part))
            continue
        possible += part.points
        verdict = _verdicts.get(part.name)
        points = part.points if verdict and verdict.passed else 0
        earned += points
        mark = "·" if verdict is None else "✓" if verdict.passed else "✗"
        note = "   (check not run yet)" if verdict is None else ""
        print(f"{mark} {part.name}  {points} of {part.points}  {part.title}{note}")
    print(f"  so far {earned} of {possible} points")
    if "google.colab" in sys.modules:
        print("  To keep or hand in your work: File > Download > Download .ipynb")


def _ask(part: Part, objects: dict[str, Any], cases: list[Any]) -> tuple[list[Any], str]:
    from IPython.utils.capture import capture_output

    with capture_output() as captured:
        answers = [ask_here(part, objects, case) for case in cases]
    return answers, captured.stdout + captured.stderr


def _explanation(part: Part, verdict: Verdict, printed: str) -> str:
    key = (part.name, verdict.property)
    times = _broken[key] = _broken.get(key, 0) + 1
    lines = [f"Expected: {verdict.property}.", f"But: {verdict.example}"]
    if verdict.hints:
        lines.append(f"Hint: {verdict.hints[min(times, len(verdict.hints)) - 1]}")
    if printed.strip():
        lines.append(f"Your code printed: {show(printed.strip(), 300)}")
    return printable_lines("\n".join(lines))
