"""Decides the points of each part, from outside of the learner's process.

A process (``holder.py``, under ``contain.py``'s guard) runs the learner's notebook cell by cell. Where a part's check
stands, it gets fresh random questions as JSON over a pipe, one at a time, and answers with plain data. The reference is
computed here, where the learner's code cannot reach. So nothing that the code does to its own process, to Python, to
pagedlab or to pytest can turn a wrong answer into a right one.

A cell that raises is a cell that raised: the next one is run, as in a notebook. A cell that ends the process, or takes
too long, is left out in a new process, and so is the check of a part whose answers did so; the other parts are judged
there. A part one of whose own cells was left out gets no points.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import select
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pagedlab.grading.contain import Contained, Limits, scratch
from pagedlab.grading.notebook import Cell
from pagedlab.grading.own_code import ANSWERS, not_own
from pagedlab.grading.part import Part, Verdict, examine
from pagedlab.grading.plain import MAX_ITEMS, plain

MAX_ANSWER_BYTES = 16 << 20
SECONDS_FOR_ALL_CASES = 60.0
SECONDS_FOR_ALL_CELLS = 600.0  # in all processes together
KNOW_THE_ANSWERS = tuple(str(Path(__file__).with_name(name)) for name in ("exercises", "reference"))


class NoAnswer(Exception):
    """The learner's process did not give what was asked of it; says why."""


@dataclass
class Judged:
    """verdicts: by part; counted: by part, which cell is the check that counted; left_out: cells, and why."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)


def judge(
    parts: Sequence[Part],
    cells: list[Cell],
    *,
    seed: int = 0,
    rng: random.Random | None = None,
    hidden: Sequence[str] = (),
    before: Callable[[Part], None] = lambda part: None,
) -> Judged:
    """Judge ``parts`` of a restored notebook's ``cells``.

    ``seed``: the submission's; ``rng``: fresh randomness unless given; ``hidden``: files and folders that the
    learner's code is not to read; ``before``: called before each part is asked.
    """
    run = _Run({part.name: part for part in parts}, cells, seed, rng or random.Random(), hidden, before)
    while run.to_ask:
        with scratch("pagedlab-judge-") as folder:
            run.once(folder)
    for part in parts:
        own = [f"{_name(cells[i], i)}: {why}" for i, why in run.judged.left_out.items() if cells[i].part == part.name]
        if own:
            run.judged.verdicts[part.name] = _not_run("; ".join(own))
    return run.judged


def _not_run(why: str) -> Verdict:
    return Verdict(False, "the code runs and answers", why)


def _name(cell: Cell, i: int) -> str:
    return f"your cell for part {cell.part}" if cell.role == "learner" else f"cell {i}"


class _Run:
    """One notebook, in as many processes as it takes. ``to_ask``: the checks that are still to come."""

    def __init__(
        self,
        parts: dict[str, Part],
        cells: list[Cell],
        seed: int,
        rng: random.Random,
        hidden: Sequence[str],
        before: Callable[[Part], None],
    ) -> None:
        self.parts, self.cells, self.seed, self.rng = parts, cells, seed, rng
        self.hidden, self.before = hidden, before
        self.judged = Judged()
        self.to_ask = [i for i, cell in enumerate(cells) if cell.role == "check" and cell.part in parts]
        self.seconds_left = SECONDS_FOR_ALL_CELLS
        self.raised: dict[int, str] = {}

    def once(self, folder: Path) -> None:
        """From the top, in a new process, until all is asked or the process is of no more use."""
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        limits = Limits(
            seconds=self.seconds_left + SECONDS_FOR_ALL_CASES * len(self.to_ask) + 10,
            memory_bytes=max(part.memory_bytes for part in self.parts.values()),
            hidden=(*self.hidden, *KNOW_THE_ANSWERS),
        )
        command = [sys.executable, "-P", "-m", "pagedlab.grading.holder", str(to_read), str(from_write)]
        try:
            with Contained(
                command, cwd=folder, log=folder / "log.txt", limits=limits, fds=(to_read, from_write)
            ) as process:
                os.close(to_read), os.close(from_write)
                line = _Line(process, to_write, from_read)
                for i, cell in enumerate(self.cells):
                    if not self.to_ask or not self._one(line, i, cell):
                        return
        finally:
            os.close(to_write), os.close(from_read)

    def _one(self, line: _Line, i: int, cell: Cell) -> bool:
        """Run or ask what there is to run or ask in a cell. False where the process is of no more use."""
        if i in self.to_ask:
            self.to_ask.remove(i)
            if not (cell.put_in and cell.part in self.judged.counted):
                return self._ask(line, i, self.parts[cell.part])
        elif cell.kind == "code" and cell.role != "check" and i not in self.judged.left_out:
            return self._run(line, i, cell)
        return True

    def _run(self, line: _Line, i: int, cell: Cell) -> bool:
        started = time.monotonic()
        seconds = min(self.seconds_left, max(part.seconds_to_load for part in self.parts.values()))
        try:
            answer = line.ask({"cell": cell.source, "name": _name(cell, i)}, seconds, "while it was run")
            self.raised[i] = str(answer.get("wrong") or "")
        except NoAnswer as error:
            self.judged.left_out[i] = str(error)
            return False
        finally:
            self.seconds_left = max(0.0, self.seconds_left - (time.monotonic() - started))
        return True

    def _ask(self, line: _Line, i: int, part: Part) -> bool:
        self.before(part)
        alive = True
        try:
            verdict = self._verdict(line, i, part)
        except NoAnswer as error:
            verdict, alive = _not_run(str(error)), False
        if verdict.answered or part.name not in self.judged.counted:
            self.judged.verdicts[part.name] = verdict
        if verdict.answered:
            self.judged.counted[part.name] = i
        return alive

    def _verdict(self, line: _Line, i: int, part: Part) -> Verdict:
        """Raises NoAnswer where the process is of no more use."""
        question = {"part": part.name, "needs": part.needs, "answers": ANSWERS.get(part.name, ())}
        question["tells"] = part.tell is not None
        missing = line.ask(question, part.seconds_to_load, "before it was asked").get("missing")
        if missing:
            return replace(_not_run(self._not_defined(missing, i, part)), answered=False)
        cases = part.cases(self.rng, self.seed)
        answers, end = [], time.monotonic() + SECONDS_FOR_ALL_CASES
        for case in cases:
            seconds = min(part.seconds_a_case, max(0.0, end - time.monotonic()))
            answer = self._answer(line, part, case, seconds)
            if answer.get("borrowed"):
                return not_own(str(answer["borrowed"])[:300])
            if "answer" not in answer:
                return _not_run(f"{answer.get('failed', 'no answer')}, for the case {_short(part.shown(case))}"[:500])
            answers.append(answer["answer"])
        return examine(part, cases, answers)

    @staticmethod
    def _answer(line: _Line, part: Part, case: Any, seconds: float) -> dict:
        """The answer to a case, once the process was told what it asks on the way."""
        shown, questions, by = part.shown(case), [], time.monotonic() + seconds
        when = f"for the case {_short(shown)}"
        answer = line.ask({"case": shown}, seconds, when)
        while part.tell and "asks" in answer:
            questions.append(answer["asks"])
            answer = line.ask({"told": part.tell(case, answer["asks"])}, seconds, when, by)
        if part.tell and isinstance(answer.get("answer"), dict):
            answer["answer"]["asked"] = questions  # counted here, whatever the process says of it
        return answer

    def _not_defined(self, missing: Any, check: int, part: Part) -> str:
        """Which names, and what was raised in the part's own cells, or in the last cells above where they are fine."""
        own = [i for i, cell in enumerate(self.cells) if cell.role == "learner" and cell.part == part.name]
        raised = [self.raised[i] for i in own if self.raised.get(i)]
        if not own:
            raised = [f"no cell begins with `# part {part.name}`"]
        raised = raised or [self.raised[i] for i in sorted(self.raised) if self.raised[i] and i < check][-2:]
        names = ", ".join(map(str, missing)) if isinstance(missing, list) else "something"
        return "; ".join([f"{names} is not defined", *raised])


class _Line:
    """One question, one answer, a limit on time and size for each."""

    def __init__(self, process: Contained, to_write: int, from_read: int) -> None:
        self.process, self.to_write, self.from_read = process, to_write, from_read
        os.set_blocking(to_write, False)
        self.buffer = b""

    def ask(self, question: dict, seconds: float, when: str, by: float | None = None) -> dict:
        """Raises NoAnswer, and has ended the process then. ``by``: when the ``seconds``, begun before, are over."""
        try:
            return self._ask(question, seconds, when, by or time.monotonic() + seconds)
        except NoAnswer:
            self.process.stop()
            raise

    def _ask(self, question: dict, seconds: float, when: str, end: float) -> dict:
        if time.monotonic() > end:
            raise NoAnswer(f"it took more than {seconds:.0f} seconds {when}")
        number = secrets.token_hex(4)  # so that nothing else that a learner's code writes there is an answer
        self._send((json.dumps(question | {"number": number}) + "\n").encode(), end, when)
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.from_read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise NoAnswer(f"it took more than {seconds:.0f} seconds {when}")
            read = os.read(self.from_read, 1 << 16)
            if not read:
                raise NoAnswer(f"the code's process ended {when}: {self._why()}")
            self.buffer += read
            if len(self.buffer) > MAX_ANSWER_BYTES:
                raise NoAnswer(f"the answer was too long {when}")
        line, _, self.buffer = self.buffer.partition(b"\n")
        try:
            answer = plain(json.loads(line))
        except (ValueError, RecursionError):
            raise NoAnswer(f"the answer was no plain data (or more than {MAX_ITEMS:,} items) {when}") from None
        if not isinstance(answer, dict) or answer.get("number") != number:
            raise NoAnswer(f"the process that holds the code answered something strange {when}")
        return answer

    def _send(self, data: bytes, end: float, when: str) -> None:
        while data:
            try:
                _, ready, _ = select.select([], [self.to_write], [], max(0.0, end - time.monotonic()))
                if not ready:
                    raise NoAnswer(f"it took too long {when}")
                data = data[os.write(self.to_write, data) :]
            except BrokenPipeError:
                raise NoAnswer(f"the code's process ended {when}: {self._why()}") from None

    def _why(self) -> str:
        """Why it ended. The pipe may break a little before the guard has seen the end."""
        self.process.has_ended(2)
        return str(self.process.stop())


def _short(case: Any) -> str:
    text = json.dumps(case)
    return text if len(text) < 200 else text[:200] + "…"
