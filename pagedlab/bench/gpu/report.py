"""The table that `pagedlab gpu-check` prints as it goes, and where its figures come from."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import time
import traceback

RESERVE = 12  # seconds; no part begins with less left


class Report:
    """Rows of the one table, printed as they come, and kept for the JSON."""

    def __init__(self, seconds: float):
        self.began = time.monotonic()
        self.seconds = seconds
        self.parts: dict[str, dict] = {}
        self.failed = False
        self.part = ""

    @property
    def left(self) -> float:
        return self.seconds - (time.monotonic() - self.began)

    def row(self, name: str, text: str, **figures) -> None:
        print(f"{self.part:<14} {name:<34} {text}", flush=True)
        self.parts[self.part]["rows"].append({"name": name, "text": text, **figures})

    def wrong(self, name: str, text: str, **figures) -> None:
        self.failed = True
        self.row(name, "WRONG: " + text, **figures)

    def judged(self, right: bool, name: str, text: str, **figures) -> None:
        (self.row if right else self.wrong)(name, text, **figures)

    def run(self, part: str, function, *arguments) -> None:
        """One part: skipped when the time is over, an entry when it raises."""
        self.part = part
        self.parts[part] = {"rows": []}
        if self.left < RESERVE:
            self.row("left out", f"{self.seconds:.0f} s are over")
            return
        start = time.monotonic()
        try:
            function(self, *arguments)
        except Exception as error:  # another part may still tell something
            self.wrong("failed", f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}",
                       traceback=traceback.format_exc())  # fmt: skip
        self.parts[part]["seconds"] = round(time.monotonic() - start, 2)


def versions() -> dict[str, str | None]:
    """What is installed, by package name; None where it is not."""
    found = {}
    for package in ("pagedlab", "torch", "triton", "wgpu", "flashinfer-python", "flash-attn", "vllm", "numpy"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def provenance(device=None) -> dict:
    """Where figures come from: date, versions, and the GPU, or that there is none."""
    import torch

    where = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": versions(),
        "cuda": torch.version.cuda,
        "device": None,
    }
    if device is not None and device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        where |= {
            "device": properties.name,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "sms": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "l2_bytes": getattr(properties, "L2_cache_size", None),
        }
    return where
