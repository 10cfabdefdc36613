"""Grades submissions: merge, judge, nbval, points.

A check's points are given where both say yes: the judge, who keeps the learner's code in a process of its own, and
nbval, which runs the whole notebook as the learner would. The submission's file is read once and never changed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from pagedlab.errors import PagedlabError
from pagedlab.grading.judge import judge
from pagedlab.grading.merge import merge
from pagedlab.grading.nbval_run import run_nbval
from pagedlab.grading.notebook import exercise_number, read_cells, read_reference, seed_of
from pagedlab.grading.part import Verdict, load_exercise


@dataclass(frozen=True)
class CheckResult:
    """One check: what it could give, what it gave, and why not all."""

    name: str
    title: str
    points: int
    earned: int
    reason: str = ""


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

    @property
    def points(self) -> int:
        return sum(check.points for check in self.checks)

    @property
    def earned(self) -> int:
        return sum(check.earned for check in self.checks)


def grade(path: str | Path, *, seed: int | None = None, with_nbval: bool = True) -> Result:
    """Grade one notebook. ``seed``: overrides the submission's; ``with_nbval=False``: the judge alone (for tests).

    Raises PagedlabError for a file that is no notebook of an exercise.
    """
    if sys.platform == "win32":
        raise PagedlabError(
            "Grading needs Linux or macOS: it limits what a submission may use. On Windows run it in WSL."
        )
    started, path = time.monotonic(), Path(path)
    submission = read_cells(path)
    saved = datetime.fromtimestamp(path.stat().st_mtime).astimezone().isoformat(timespec="seconds")
    exercise = load_exercise(exercise_number(path, submission))
    reference = read_reference(exercise.number)
    own_seed = seed if seed is not None else seed_of(submission)
    merged = merge(reference, submission, own_seed)
    own_seed = seed_of(merged.cells) or 0

    verdicts = {part.name: judge(part, merged.cells, seed=own_seed) for part in exercise.parts}
    seen: dict[str, str] = {}
    if with_nbval and any(verdict.passed for verdict in verdicts.values()):
        # What the judge has refused has no points to win, so its check is not run again.
        refused = {name for name, verdict in verdicts.items() if not verdict.passed}
        seen = run_nbval([cell for cell in merged.cells if cell.role != "check" or cell.part not in refused])

    checks = []
    for part in exercise.parts:
        verdict = verdicts[part.name]
        reason = _reason(verdict, seen[part.name] if with_nbval and verdict.passed else "")
        checks.append(CheckResult(part.name, part.title, part.points, 0 if reason else part.points, reason))
    return Result(
        str(path),
        exercise.name,
        saved,
        round(time.monotonic() - started, 1),
        own_seed,
        checks,
        list(dict.fromkeys(merged.notes)),
    )


def _reason(verdict: Verdict, in_notebook: str) -> str:
    if not verdict.passed:
        return f"expected: {verdict.property}; but {verdict.example}"
    return f"right by itself, but not in the notebook run from top to bottom: {in_notebook}" if in_notebook else ""


def grade_all(paths: Sequence[str | Path], *, seed: int | None = None) -> list[Result | PagedlabError]:
    """Grade several, as many at a time as there are cores for. In the order of ``paths``; an error stands for what
    cannot be graded.

    A folder among ``paths`` stands for the notebooks in it.
    """
    files = [file for path in paths for file in _notebooks(Path(path))]

    def one(file: Path | PagedlabError) -> Result | PagedlabError:
        if isinstance(file, PagedlabError):
            return file
        try:
            return grade(file, seed=seed)
        except PagedlabError as error:
            return error

    workers = min(len(files), os.cpu_count() or 1)
    if workers == 1:
        return list(map(one, files))
    with ThreadPoolExecutor(workers) as pool:
        try:
            return list(pool.map(one, files))
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise


def _notebooks(path: Path) -> list[Path | PagedlabError]:
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.ipynb"))
    return list(found) or [PagedlabError(f"There is no notebook (.ipynb) in the folder {path}.")]


def run(paths: Sequence[str | Path], *, json_path: str | Path | None = None, min_score: float | None = None) -> int:
    """What ``pagedlab grade`` does: grade, print, and return an exit status.

    0: graded; 1: ``min_score`` (percent) was not reached by every notebook; 2: something could not be graded.
    ``json_path``: the same as data. Raises PagedlabError for arguments that cannot be right.
    """
    from pagedlab.grading.report import as_text

    if not paths:
        raise PagedlabError(
            "Nothing to grade: give at least one notebook, for example exercises/03_block_table.ipynb."
        )
    if min_score is not None and not 0 <= min_score <= 100:
        raise PagedlabError(f"min_score is {min_score}; it is a percentage, from 0 to 100.")
    results = grade_all(paths)
    graded = [result for result in results if isinstance(result, Result)]
    errors = [result for result in results if isinstance(result, PagedlabError)]
    for result in graded:
        print(as_text(result))
    for error in errors:
        print(error, file=sys.stderr)
    if json_path is not None:
        data = [asdict(result) | {"points": result.points, "earned": result.earned} for result in graded]
        try:
            Path(json_path).write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise PagedlabError(f"The result could not be written to {json_path}: {error.strerror}.") from None
    if errors:
        return 2
    below = min_score is not None and any(100 * result.earned < min_score * result.points for result in graded)
    return 1 if below else 0
