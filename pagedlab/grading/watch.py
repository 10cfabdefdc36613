"""Notices when a submission changes files that it has no business with, where the system does not keep it from that.

Where writes are confined (``confine.py``), nothing can have changed, and nothing is looked at. Elsewhere pagedlab's
own files and all submissions are hashed before and after each grade; a grade during which one of them changed is
refused, and after a change to pagedlab itself all further ones.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from pathlib import Path

from pagedlab.errors import PagedlabError
from pagedlab.grading import confine


def package_files() -> list[Path]:
    """pagedlab's own source files and data."""
    import pagedlab.kernels

    folders = [Path(pagedlab.__file__).parent, *map(Path, pagedlab.kernels.__path__)]
    return [file for folder in folders for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"]


class Watch:
    """Looks after files while submissions are graded, in any number of threads.

    ``begin`` before a grade, ``end`` with what it gave after it: the reason why that grade is to be refused, or "".
    """

    def __init__(self, submissions: Iterable[Path], package: list[Path] | None = None) -> None:
        self.submissions = list(submissions)
        self.needed = confine.version() == 0
        self._lock, self._epoch, self._reason, self._spoilt = threading.Lock(), 0, "", False
        self._package = set(package if package is not None else package_files()) if self.needed else set()
        self._files = [*self._package, *self.submissions] if self.needed else []
        self._state = {file: _digest(file) for file in self._files}

    def begin(self) -> int:
        """Raises PagedlabError where pagedlab itself was changed by an earlier submission."""
        with self._lock:
            self._look()
            if self._spoilt:
                raise PagedlabError(f"Nothing more is graded: {self._reason} Install pagedlab anew, then grade again.")
            return self._epoch

    def end(self, epoch: int) -> str:
        with self._lock:
            self._look()
            return self._reason if self._epoch != epoch else ""

    def _look(self) -> None:
        now = {file: _digest(file) for file in self._files}
        changed = [file for file in self._files if now[file] != self._state[file]]
        self._state = now
        if changed:
            self._epoch += 1
            self._spoilt = self._spoilt or not self._package.isdisjoint(changed)
            self._reason = (
                f"while it was graded, {changed[0].name} was changed (files changed: {len(changed)}). A submission may "
                "write into its own folder only; grade each by itself, in a container, to see which one it is."
            )


def _digest(file: Path) -> bytes | None:
    try:
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return None
