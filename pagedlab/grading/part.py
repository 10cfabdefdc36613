"""What a graded part of an exercise is made of: plain functions of plain data.

The same three functions serve the check cell in a notebook, where learner and check share a kernel, and the judge,
which keeps the learner's code in a process of its own:

    cases(rng, seed)      the questions: fresh and random, the smallest first
    probe(objects, case)  asks the learner's objects one question, beside the learner's code; its answer is plain data
    properties            hold question and answer against the reference; in a grade, never beside the learner's code

What of a case would answer it is kept back from the probe. A part whose probe needs some of it on the way tells it
question by question: ``probe(objects, case, tell)``.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.grading.plain import NotPlain, failed, raised, show, unanswered

EXERCISES = ("01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16", "17")
PART_NAMES = {1: "part one", 2: "part two"}  # of the course; the points of each are counted apart
HOW_TO_MEND = ("Make that call in a cell of your own: its traceback shows every step of the way to that line.",)
HOW_TO_COMPLETE = ("Is it spelled as in the text above, and does it stand inside the class (indented)?",)
HOW_TO_ANSWER = ("Write your code there and delete the line `raise NotImplementedError()`.",)


class OfErrors(str):
    """An example about whether the right error was raised, or where. Then the property is to blame, not the error."""


@dataclass(frozen=True)
class Property:
    """One promise, in words. ``broken(case, answer)`` is None where it holds, else a small example of how it does
    not.

    ``hints`` are given one after the other when the same promise stays broken: each is warmer, none is the answer.
    """

    name: str
    broken: Callable[[Any, Any], str | None]
    hints: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """A check and its points.

    needs: the names that the learner defines, in the order in which ``check`` takes them
    kept_back: what of a case (keys) the probe, and so the learner's process, does not get
    tell: answers the probe's questions on the way, ``tell(case, question)``, both plain; the questions are then under
        "asked" in the answer
    missing: what this machine lacks for the part, in words; "" where it lacks nothing
    """

    name: str  # "03.1"
    title: str
    points: int
    needs: tuple[str, ...]
    cases: Callable[[random.Random, int], list[Any]]
    probe: Callable[[dict[str, Any], Any], Any]
    properties: tuple[Property, ...]  # the first ones first: each may rely on those before it
    seconds_a_case: float = 10.0
    seconds_to_load: float = 60.0
    memory_bytes: int = 4 << 30
    missing: Callable[[], str] = str
    kept_back: tuple[str, ...] = ()
    tell: Callable[[Any, Any], Any] | None = None

    def shown(self, case: Any) -> Any:
        """What the probe gets of a case."""
        return {name: value for name, value in case.items() if name not in self.kept_back}


@dataclass(frozen=True)
class Verdict:
    """What became of a part. ``example`` and ``hint`` are empty where it passed. ``answered``: whether there was
    anything to judge."""

    passed: bool
    property: str = ""
    example: str = ""
    hints: tuple[str, ...] = ()
    answered: bool = True


@dataclass(frozen=True)
class Exercise:
    """One exercise; ``name`` is also its notebook's name. ``course_part``: the part of the course that its points are
    counted in."""

    number: str  # "03"
    name: str  # "03_block_table"
    parts: tuple[Part, ...]
    course_part: int = 1

    @property
    def points(self) -> int:
        return sum(part.points for part in self.parts)

    def part(self, name: str) -> Part:
        for part in self.parts:
            if part.name == name:
                return part
        raise PagedlabError(
            f"There is no part {name!r}; exercise {self.number} has {', '.join(p.name for p in self.parts)}."
        )


def load_exercise(number: str) -> Exercise:
    """The exercise of this number, one of EXERCISES. Raises PagedlabError for one that there is not."""
    if number not in EXERCISES:
        raise PagedlabError(f"There is no exercise {number!r}; there are {', '.join(EXERCISES)}.")
    return importlib.import_module(f"pagedlab.grading.exercises.ex{number}").EXERCISE


def load_part(name: str) -> Part:
    """The part "03.2". Raises PagedlabError for one that there is not."""
    return load_exercise(str(name).partition(".")[0]).part(name)


def ask(probe: Callable[..., Any], objects: dict[str, Any], case: Any, *tell: Callable[[Any], Any]) -> Any:
    """The learner's answer to what is shown of a case. Raises NotPlain for one that is no plain data."""
    try:
        return probe(objects, case, *tell)
    except NotPlain:
        raise
    except Exception as error:
        return failed(error)


def ask_here(part: Part, objects: dict[str, Any], case: Any) -> Any:
    """The same where learner and check share a process."""
    if part.tell is None:
        return ask(part.probe, objects, part.shown(case))
    questions: list[Any] = []

    def tell(question: Any) -> Any:
        questions.append(question)
        return part.tell(case, question)

    return ask(part.probe, objects, part.shown(case), tell) | {"asked": questions}


def examine(part: Part, cases: list[Any], answers: list[Any]) -> Verdict:
    """Hold every answer against every property. The verdict names the first broken property, with its smallest
    case; where that is broken because a call raised, it names the error instead."""
    if any(map(unanswered, answers)):
        found = "there is none yet where the cell says YOUR CODE HERE"
        return Verdict(False, "an answer", found, HOW_TO_ANSWER, answered=False)
    for prop in part.properties:
        for case, answer in zip(cases, answers, strict=True):
            try:
                example = prop.broken(case, answer)
            except PagedlabError:
                raise
            except (TypeError, KeyError, IndexError, ValueError, AttributeError):
                # A property that cannot even read the answer: its shape is not what the part asks for.
                example = f"the answer has a shape that the check cannot read: {str(answer)[:120]}"
                if error := next(_errors(answer), None):
                    example = f"for the case {show(case)}: {show(error)}"
            if example is None:
                continue
            shown = [error for error in _errors(answer) if show(error) in example]
            for error in shown:
                example = type(example)(example.replace(show(error), error["raised"]))
            if shown and "(your class " in example:
                return Verdict(False, "the class has what the check asks it for", str(example), HOW_TO_COMPLETE)
            if shown and not isinstance(example, OfErrors):
                return Verdict(False, "no call of your code ends in an error", example, HOW_TO_MEND)
            return Verdict(False, prop.name, str(example), prop.hints)
    return Verdict(True)


def _errors(answer: Any) -> Iterator[dict[str, Any]]:
    """Every error in an answer (plain), the first one first."""
    if type(answer) is list:
        for item in answer:
            yield from _errors(item)
    elif type(answer) is dict:
        if answer.get("error") is True and type(raised(answer)) is str:
            yield answer
        else:
            for item in answer.values():
                yield from _errors(item)
