"""Decides the points of a part, from outside of the learner's process.

For each part a new process gets the learner's code (``holder.py``, under ``contain.py``'s guard), then fresh random
questions as JSON over a pipe, one at a time, and answers with plain data. The reference is computed here, where the
learner's code cannot reach. So nothing that the code does to its own process, to Python, to pagedlab or to pytest
can turn a wrong answer into a right one.
"""

from __future__ import annotations

import json
import os
import random
import select
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pagedlab.grading.contain import Contained, Limits
from pagedlab.grading.needed import needed_cells
from pagedlab.grading.notebook import Cell
from pagedlab.grading.own_code import imports_the_grader, not_own
from pagedlab.grading.part import Part, Verdict, examine
from pagedlab.grading.plain import MAX_ITEMS, plain

MAX_ANSWER_BYTES = 16 << 20
SECONDS_FOR_ALL_CASES = 60.0


class NoAnswer(Exception):
    """The learner's process did not give what was asked of it; says why."""


class NotOwn(Exception):
    """The part is answered by pagedlab's own code; says by what."""


def judge(part: Part, cells: list[Cell], *, seed: int = 0, rng: random.Random | None = None) -> Verdict:
    """Judge ``part`` of a merged notebook's ``cells``. ``seed``: the submission's; ``rng``: fresh randomness unless
    given."""
    needed = needed_cells(cells, part)
    if not needed:
        return _not_run("there is a cell for it", f"no cell begins with `# part {part.name}`")
    if found := imports_the_grader(needed, part):
        return not_own(found)
    cases = part.cases(rng or random.Random(), seed)
    with tempfile.TemporaryDirectory(prefix="pagedlab-judge-", ignore_cleanup_errors=True) as folder:
        try:
            answers = _ask(part, needed, cases, Path(folder))
        except NoAnswer as error:
            return _not_run("the code runs and answers", str(error))
        except NotOwn as error:
            return not_own(str(error))
    return examine(part, cases, answers)


def _not_run(promise: str, why: str) -> Verdict:
    return Verdict(False, promise, why)


def _ask(part: Part, cells: list[Cell], cases: list[Any], folder: Path) -> list[Any]:
    text, places = _one_file(cells)
    file = folder / "submission.py"
    file.write_text(text, encoding="utf-8", errors="replace")
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    limits = Limits(
        seconds=part.seconds_to_load + SECONDS_FOR_ALL_CASES + 10,
        memory_bytes=part.memory_bytes,
        address_space=4 * part.memory_bytes,  # torch's libraries alone take some GiB of addresses, and little memory
    )
    command = [sys.executable, "-P", "-m", "pagedlab.grading.holder", str(file), str(to_read), str(from_write)]
    try:
        with Contained(
            command, cwd=folder, log=folder / "log.txt", limits=limits, fds=(to_read, from_write)
        ) as process:
            os.close(to_read), os.close(from_write)
            line = _Line(process, to_write, from_read)
            loaded = line.ask({"part": part.name, "cells": places}, part.seconds_to_load, "while the cells were run")
            if not isinstance(loaded.get("missing"), list) or not isinstance(loaded.get("wrong"), list):
                raise NoAnswer("the process that holds the code answered something strange")
            if loaded["missing"]:
                raise NoAnswer(
                    "; ".join(
                        [f"{', '.join(map(str, loaded['missing']))} is not defined", *map(str, loaded["wrong"])]
                    )
                )
            if loaded.get("borrowed"):
                raise NotOwn(str(loaded["borrowed"])[:300])
            answers, end = [], time.monotonic() + SECONDS_FOR_ALL_CASES
            for case in cases:
                seconds = min(part.seconds_a_case, max(0.0, end - time.monotonic()))
                answer = line.ask({"case": case}, seconds, f"for the case {_short(case)}")
                if "answer" not in answer:
                    raise NoAnswer(f"{answer.get('failed', 'no answer')}, for the case {_short(case)}"[:500])
                answers.append(answer["answer"])
            return answers
    finally:
        os.close(to_write), os.close(from_read)


def _one_file(cells: list[Cell]) -> tuple[str, list[tuple[int, int, str]]]:
    """The cells as one file, and for each its first and last line there and its name."""
    lines: list[str] = []
    places = []
    for number, cell in enumerate(cells, start=1):
        own = cell.source.split("\n")
        name = f"your cell for part {cell.part}" if cell.role == "learner" else f"cell {number}"
        places.append((len(lines) + 1, len(lines) + len(own), name))
        lines += own
    return "\n".join(lines) + "\n", places


class _Line:
    """One question, one answer, a limit on time and size for each."""

    def __init__(self, process: Contained, to_write: int, from_read: int) -> None:
        self.process, self.to_write, self.from_read = process, to_write, from_read
        os.set_blocking(to_write, False)
        self.buffer = b""

    def ask(self, question: dict, seconds: float, when: str) -> dict:
        end = time.monotonic() + seconds
        self._send((json.dumps(question) + "\n").encode(), end, when)
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.from_read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self.process.stop()
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
        if not isinstance(answer, dict):
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
