"""Grades many submissions at once: who handed in what, and what became of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pagedlab.errors import PagedlabError
from pagedlab.grading.grade import Result, Submission, grade
from pagedlab.grading.notebook import REFERENCE
from pagedlab.grading.plain import make_printable
from pagedlab.grading.watch import Watch

MEMORY_EACH = 2 << 30  # what a grade with the real model takes, about; so many run at a time as there is room for


@dataclass(frozen=True)
class Refused:
    """What could not be graded, and why."""

    path: str
    reason: str

    def __post_init__(self) -> None:
        make_printable(self, "path", "reason")


@dataclass(frozen=True)
class Graded:
    """One file of a class: whose it is, and what became of it."""

    learner: str
    outcome: Result | Refused

    def __post_init__(self) -> None:
        make_printable(self, "learner")


def grade_all(
    paths: Sequence[str | Path],
    *,
    seed: int | None = None,
    jobs: int | None = None,
    one_more: Callable[[], None] = lambda: None,
) -> list[Graded]:
    """Grade several, ``jobs`` at a time (None: as many as there are cores), in the order of ``paths``.

    A folder stands for the notebooks in it and below. Every file is read before the first one's code runs.
    ``one_more`` is called after each.
    """
    found = [entry for path in paths for entry in find(Path(path))]
    read = [(learner, _read(path)) for learner, path in found]
    watch = Watch([Path(path) for _, path in found if not isinstance(path, Refused)])

    def one(entry: tuple[str, Submission | Refused]) -> Graded:
        learner, submission = entry
        try:
            if isinstance(submission, Refused):
                outcome = submission
            else:
                outcome = grade(submission, seed=seed, watch=watch)
        except PagedlabError as error:
            outcome = Refused(str(submission.path), str(error))
        except Exception as error:  # a mistake of ours, or a full disk: the others are graded all the same
            outcome = Refused(
                str(submission.path), f"{submission.path}: the grader failed: {type(error).__name__}: {error}"[:500]
            )
        one_more()
        return Graded(learner, outcome)

    workers = max(1, min(len(read), jobs or _cores()))
    if workers == 1:
        return list(map(one, read))
    with ThreadPoolExecutor(workers) as pool:
        try:
            return list(pool.map(one, read))
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise


def _cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MEMORY_EACH
    except (ValueError, OSError):
        return cores
    return max(1, min(cores, room))


def _read(path: Path | Refused) -> Submission | Refused:
    if isinstance(path, Refused):
        return path
    try:
        return Submission.read(path)
    except PagedlabError as error:
        return Refused(str(path), str(error))


def find(path: Path) -> list[tuple[str, Path | Refused]]:
    """The notebooks that ``path`` stands for, each with its learner's name.

    In a folder of folders each first folder is a learner (nbgrader, GitHub Classroom); in a folder of files the
    file's name is, less the exercise's; ``exercises/`` itself is one learner's.
    """
    if not os.path.isdir(path):  # Path.is_dir() raises for a name that is too long
        return [(_learner(path.name) or path.absolute().parent.name, path)]
    notebooks: list[tuple[str, Path | Refused]] = []
    for at, folders, files in os.walk(path):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        links = [folder for folder in folders if (Path(at) / folder).is_symlink()]
        for name in sorted([*(file for file in files if file.endswith(".ipynb") and file[0] != "."), *links]):
            file = Path(at) / name
            inside = file.relative_to(path).parts
            learner = inside[0] if len(inside) > 1 or name in links else _learner(name)
            notebooks.append((learner or path.absolute().name, _no_link(file)))
    notebooks.sort(key=lambda found: (found[0], str(found[1])))
    refused = Refused(str(path), f"There is no notebook (.ipynb) in the folder {path}.")
    return notebooks or [(path.absolute().name, refused)]


def _no_link(file: Path) -> Path | Refused:
    """A link could lead to a solution, to somebody else's work, or to a file that is none of the class's."""
    if not file.is_symlink():
        return file
    return Refused(str(file), f"{file} is a symbolic link; hand in the notebook itself.")


def _learner(file: str) -> str:
    """"alice_03_block_table.ipynb" -> "alice"; empty where the name is only the exercise's."""
    name = Path(file).stem
    for exercise in REFERENCE.glob("*.ipynb"):
        name = name.replace(exercise.stem, "")
    return re.sub(r"^[\s_.-]+|[\s_.-]+$", "", name)
