"""What runs on a worker of a cluster: it gets a notebook's bytes and gives back its grade, as plain data.

The submission's code runs as on one machine: in a process of its own, behind a guard, confined, with limits on time
and memory. Only plain data goes over the network, so client and worker share nothing but these functions' names; that
they mean the same on both sides is what :func:`fingerprint` is compared for.
"""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import pagedlab
from pagedlab import kernels
from pagedlab.errors import PagedlabError
from pagedlab.grading.grade import Submission, grade
from pagedlab.grading.notebook import REFERENCE, cells_of
from pagedlab.grading.watch import Watch


def dask_setup(worker: Any) -> None:
    """Dask calls this as it starts a worker of ``--workers``. Ctrl-C reaches a terminal's every process, and it is the
    command that ends its workers; the programs that they start hear of it as ever."""
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """The version of the pagedlab that grades here, and a digest of its sources and references: two of one version
    that grade differently are not the same."""
    digest = hashlib.sha256()
    for folder in (Path(pagedlab.__file__).parent, *map(Path, kernels.__path__), REFERENCE):
        for file in sorted(folder.rglob("*.ipynb" if folder == REFERENCE else "*.py")):
            digest.update(f"{file.relative_to(folder).as_posix()}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return f"{pagedlab.__version__} ({digest.hexdigest()[:12]})"


def grade_bytes(data: bytes, path: str, saved: str, seed: int | None, others: Sequence[str]) -> dict[str, Any]:
    """The fields of a Result, or those of a Refused, for the notebook ``data``.

    ``path``, ``saved``: where its file lies for the client, and when it was saved, for the texts; ``seed``: as for
    :func:`grade`; ``others``: files that the submission is not to read, where they lie here too.
    """
    try:
        submission = Submission(Path(path), cells_of(Path(path), data), saved)
        return asdict(grade(submission, seed=seed, watch=Watch(map(Path, others))))
    except PagedlabError as error:
        return {"path": path, "reason": str(error)}
    except Exception as error:  # a mistake of ours, or a full disk: it is no other submission's business
        return {"path": path, "reason": f"{path}: the grader failed: {type(error).__name__}: {error}"[:500]}
