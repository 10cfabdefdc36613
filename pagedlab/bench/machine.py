"""What a benchmark says about the machine it ran on, and where its raw figures go."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError


def machine() -> dict[str, Any]:
    """Processor, cores and threads, versions: what a figure depends on. Nothing that tells whose machine it is."""
    import torch

    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
    }


def cpu_name() -> str:
    """The processor's name, as far as the system tells."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def machine_line(machine: dict[str, Any]) -> str:
    """One line for the head of a table."""
    return f"{machine['cpu']}, {machine['threads']} threads, torch {machine['torch']}, Python {machine['python']}"


def check_writable(out: Path | None) -> None:
    """Before anything is measured, which takes minutes. Raises PagedlabError where ``out`` could not be written."""
    if out is None:
        return
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        new = not out.exists()
        out.open("a").close()
        if new:
            out.unlink()
    except OSError as error:
        raise PagedlabError(f"{out} cannot be written: {error.strerror}.") from None


def keep(result: dict[str, Any], out: Path | None) -> None:
    """Write the raw figures to a file. Raises PagedlabError where that cannot be."""
    if out is None:
        return
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1) + "\n")
    except OSError as error:
        raise PagedlabError(f"{out} cannot be written: {error.strerror}.") from None
