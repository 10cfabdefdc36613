"""Grades submissions: restore the checks, judge, nbval, points.

A check's points are given where both say yes: the judge, who keeps the learner's code in a process of its own, and
nbval, which runs the notebook as the learner would. The submission's file is read once and never changed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from pagedlab.errors import PagedlabError, as_path
from pagedlab.grading import confine
from pagedlab.grading.judge import Judged, judge
from pagedlab.grading.nbval_run import run_nbval
from pagedlab.grading.notebook import Cell, cells_of, exercise_number, read_bytes, read_reference
from pagedlab.grading.part import Part, Verdict, load_exercise
from pagedlab.grading.plain import make_printable
from pagedlab.grading.restore import restore
from pagedlab.grading.watch import Watch

IN_THE_NOTEBOOK = "the notebook run from top to bottom"
Progress = Callable[[int, int, str], None]  # stages done, stages in all, what is being done


@dataclass(frozen=True)
class CheckResult:
    """One check: what it could give, what it gave, and why not all. ``not_run``: what this machine lacks for it;
    ``broken``: the property that the answers do not have, the first one of the part's."""

    name: str
    title: str
    points: int
    earned: int
    reason: str = ""
    not_run: str = ""
    broken: str = ""

    def __post_init__(self) -> None:
        make_printable(self, "reason", "not_run", "broken")


@dataclass(frozen=True)
class Result:
    """One graded submission. ``notes``: what was put right in the notebook before it was graded."""

    path: str
    exercise: str
    saved: str  # when the file was saved, ISO 8601, local time with offset
    seconds: float
    seed: int
    checks: list[CheckResult]
    notes: list[str]

    def __post_init__(self) -> None:
        make_printable(self, "path")

    @property
    def course_part(self) -> int:
        """The part of the course that the points are counted in."""
        return load_exercise(self.exercise[:2]).course_part

    @property
    def points(self) -> int:
        """Of what could be run here."""
        return sum(check.points for check in self.checks if not check.not_run)

    @property
    def points_not_run(self) -> int:
        return sum(check.points for check in self.checks if check.not_run)

    @property
    def earned(self) -> int:
        return sum(check.earned for check in self.checks)


@dataclass(frozen=True)
class Submission:
    """A notebook as it was when it was read: what happens to its file later changes no grade."""

    path: Path
    cells: list[Cell]
    saved: str

    @classmethod
    def read(cls, path: str | Path) -> Submission:
        """Raises PagedlabError for a file that is no notebook."""
        path = as_path(path)
        cells = cells_of(path, read_bytes(path))
        return cls(path, cells, when_saved(path))


def needs_unix() -> None:
    """Raises PagedlabError on Windows."""
    if sys.platform == "win32":
        raise PagedlabError(
            "Grading needs Linux or macOS: it limits what a submission may use. On Windows run it in WSL."
        )


def when_saved(path: Path) -> str:
    """ISO 8601, local time with offset."""
    return datetime.fromtimestamp(path.stat().st_mtime).astimezone().isoformat(timespec="seconds")


def grade(
    submission: str | Path | Submission,
    *,
    seed: int | None = None,
    with_nbval: bool = True,
    progress: Progress = lambda done, of, what: None,
    watch: Watch | None = None,
) -> Result:
    """Grade one notebook.

    ``seed``: overrides the submission's; ``with_nbval=False``: the judge alone (for tests); ``watch``: of the class
    that it is graded in. Raises PagedlabError for a file that is no notebook of an exercise, and where files were
    changed that are none of the submission's business.
    """
    needs_unix()
    started = time.monotonic()
    if not isinstance(submission, Submission):
        submission = Submission.read(submission)
    exercise = load_exercise(exercise_number(submission.path, submission.cells))
    reference = read_reference(exercise.number)
    restored = restore(reference, submission.cells, seed)
    watch = watch or Watch([submission.path])
    hidden = [str(path.absolute()) for path in watch.submissions]
    epoch = watch.begin()

    here = [part for part in exercise.parts if not part.missing()]

    def before(part: Part) -> None:
        progress(here.index(part), len(here) + 1, f"asking part {part.name}")

    if any('"smollm2"' in cell.source for cell in reference):
        _model_is_here()  # what runs the notebook cannot write into the cache
    judged = judge(here, restored.cells, seed=restored.seed, hidden=hidden, before=before)
    verdicts = judged.verdicts
    seen: dict[str, str] = {}
    if with_nbval and any(verdict.passed for verdict in verdicts.values()):
        progress(len(here), len(here) + 1, "running the notebook")
        seen = run_nbval(_to_run(restored.cells, judged), hidden=hidden)
    progress(len(here) + 1, len(here) + 1, "graded")
    if reason := watch.end(epoch):
        raise PagedlabError(f"{submission.path} gets no grade: {reason}")

    checks = []
    for part in exercise.parts:
        if part.name not in verdicts:
            checks.append(CheckResult(part.name, part.title, part.points, 0, not_run=part.missing()))
            continue
        verdict = verdicts[part.name]
        reason = _reason(verdict, seen[part.name] if with_nbval and verdict.passed else "")
        broken = (verdict.property or IN_THE_NOTEBOOK) if reason else ""
        points = 0 if reason else part.points
        checks.append(CheckResult(part.name, part.title, part.points, points, reason, broken=broken))
    return Result(
        str(submission.path),
        exercise.name,
        submission.saved,
        round(time.monotonic() - started, 1),
        restored.seed,
        checks,
        [*restored.notes, *filter(None, [confine.not_held_back()])],
    )


def _to_run(cells: list[Cell], judged: Judged) -> list[Cell]:
    """Down to the last check that has points to win. What the judge has refused is not checked again, and what ended
    its process, or took too long, is not run again."""
    checks = {judged.counted[part] for part, verdict in judged.verdicts.items() if verdict.passed}
    kept = [i for i in range(max(checks) + 1) if i in checks or cells[i].role != "check"]
    return [cells[i] for i in kept if i not in judged.left_out]


def _reason(verdict: Verdict, in_notebook: str) -> str:
    if not verdict.passed:
        return f"expected: {verdict.property}; but {verdict.example}"
    return f"right by itself, but not in {IN_THE_NOTEBOOK}: {in_notebook}" if in_notebook else ""


@lru_cache(maxsize=1)
def _model_is_here() -> None:
    from pagedlab.model.download import ensure_model_file

    with suppress(PagedlabError):  # the cell that wants it says so, and the other checks can be run
        ensure_model_file()
