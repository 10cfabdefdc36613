"""Grades that are kept while a class is graded, so that a run that was stopped is taken up again."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.grading.grade import CheckResult, Result


def result_of(fields: dict[str, Any]) -> Result:
    """A Result from ``asdict`` of one. Raises TypeError or KeyError for anything else."""
    return Result(**fields | {"checks": [CheckResult(**check) for check in fields["checks"]]})


def key_of(data: bytes, exercise: str, seed: int | None, grader: str) -> str:
    """Of a grade: the same notebook, exercise, seed and grader (``on_worker.fingerprint``) have the same."""
    about = json.dumps([exercise, seed, grader]).encode()
    return hashlib.sha256(about + b"\0" + data).hexdigest()


class Kept:
    """A folder with a file for each grade; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PagedlabError(f"The folder {folder} cannot be made: {error.strerror}.") from None

    def get(self, key: str, path: str, saved: str) -> Result | None:
        """The grade, as that of the file ``path``. A file that is no grade counts for nothing."""
        if self.folder is None:
            return None
        try:
            fields = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
            return replace(result_of(fields), path=path, saved=saved)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def put(self, key: str, result: Result) -> None:
        """Whole or not at all. Raises PagedlabError where it cannot be written."""
        if self.folder is None:
            return
        new = self.folder / f"{key}.new"
        try:
            new.write_text(json.dumps(asdict(result)), encoding="utf-8")
            os.replace(new, self.folder / f"{key}.json")
        except OSError as error:
            raise PagedlabError(f"A grade could not be written to {self.folder}: {error.strerror}.") from None
