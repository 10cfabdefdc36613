"""Asks a part's check about answers, many one after the other: each in a fork, with limits, and no process is started.

What is decided is what the judge decides: the same probes, questions and properties, plain answers, in the same order.
Only the walls around the learner's code are missing, so this is for code that wishes nobody ill.
"""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
import types
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagedlab.grading.part import Part, Verdict, ask_here, examine
from pagedlab.grading.plain import NotPlain, cells_of, plain

SECONDS, MEMORY = 60, 1 << 30  # of waiting, and beyond what this process has


def questions(part: Part, seed: int, draws: int) -> tuple[list[Any], list[list[Any]]]:
    """The cases that every draw has, and for each of ``draws`` draws the others."""
    drawn = [part.cases(random.Random(f"{part.name} {i}"), seed) for i in range(draws)]
    texts = [set(map(json.dumps, cases)) for cases in drawn]
    always = set.intersection(*texts)
    return (
        [case for case in drawn[0] if json.dumps(case) in always],
        [[case for case in cases if json.dumps(case) not in always] for cases in drawn],
    )


@dataclass(frozen=True)
class Answers:
    """A learner's cells for one part, and those that stand above it."""

    cells: list[str]

    def objects(self, part: Part, folder: Path) -> dict[str, Any]:
        """Run the cells. Raises what they raise, and LookupError where a name is not defined."""
        module, file = types.ModuleType("submission"), folder / f"{os.getpid()}.py"
        sys.modules["submission"], module.__file__ = module, str(file)
        file.write_text("\n".join(self.cells))  # a real file: Triton reads a kernel's source
        places, line = [], 1
        for cell in self.cells:
            places.append((line, line + cell.count("\n"), "your cell"))
            line += cell.count("\n") + 1
        cells_of(str(file), places)
        exec(compile(file.read_text(), str(file), "exec"), module.__dict__)
        if missing := [name for name in part.needs if name not in module.__dict__]:
            raise LookupError(f"{', '.join(missing)} is not defined")
        return {name: module.__dict__[name] for name in part.needs}


def first_broken(part: Part, answers: Answers, cases: list[Any], folder: Path) -> Verdict:
    """The verdict of the first case that an answer fails: that there is one is all that counts here."""
    try:
        objects = answers.objects(part, folder)
    except Exception as error:
        return Verdict(False, "the code runs and answers", f"{type(error).__name__}: {error}")
    for case in cases:
        verdict = examine(part, [case], [_answer(part, objects, case)])
        if not verdict.passed:
            return verdict
    return Verdict(True)


def verdict(part: Part, answers: Answers, cases: list[Any], folder: Path) -> Verdict:
    """The verdict of all cases together, as the judge gives it."""
    try:
        objects = answers.objects(part, folder)
    except Exception as error:
        return Verdict(False, "the code runs and answers", f"{type(error).__name__}: {error}")
    return examine(part, cases, [_answer(part, objects, case) for case in cases])


def _answer(part: Part, objects: dict[str, Any], case: Any) -> Any:
    try:
        return plain(json.loads(json.dumps(plain(ask_here(part, objects, json.loads(json.dumps(case)))))))
    except NotPlain as error:
        return {"raised": str(error), "error": True}


def each_in_a_fork(jobs: Iterable[Any], work: Any, workers: int = 2) -> Iterator[tuple[Any, Any]]:
    """(job, ``work(job, folder)``) for each job, in the order in which they end. What hangs or dies gives a Verdict."""
    waiting, running = iter(jobs), {}
    with tempfile.TemporaryDirectory(prefix="pagedlab-mutants-") as folder:
        while True:
            while len(running) < workers and (job := next(waiting, None)) is not None:
                pid, pipe = _fork(work, job, Path(folder))
                running[pipe] = (pid, job, time.monotonic() + SECONDS)
            if not running:
                return
            ready, _, _ = select.select(list(running), [], [], 1.0)
            for pipe in [p for p, (_, _, end) in running.items() if p in ready or time.monotonic() > end]:
                pid, job, _ = running.pop(pipe)
                if pipe not in ready:
                    os.kill(pid, signal.SIGKILL)
                with os.fdopen(pipe, "rb") as file:
                    verdict = file.read()
                os.waitpid(pid, 0)
                yield job, Verdict(**json.loads(verdict)) if verdict else Verdict(False, "the code runs and answers")


def _fork(work: Any, job: Any, folder: Path) -> tuple[int, int]:
    read, write = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    try:
        limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        found = work(job, folder)
        with suppress(OSError), os.fdopen(write, "w") as file:
            file.write(json.dumps({"passed": found.passed, "property": found.property, "example": found.example}))
    finally:
        os._exit(0)
