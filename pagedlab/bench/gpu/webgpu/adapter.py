"""The WebGPU adapter that a check ran on, in words and as data."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from pagedlab.bench.gpu.report import provenance
from pagedlab.bench.machine import cpu_name
from pagedlab.kernels.wgsl.gpu import GPU

SOFTWARE = "A CPU does this adapter's work: what is right here is right, and its times mean nothing for a GPU."


def where(gpu: GPU) -> dict[str, Any]:
    """Where figures come from. ``note``: what has to be known of them, or None."""
    software = gpu.info["adapter_type"] == "CPU"
    return provenance() | {
        "device": gpu.name,
        "adapter": dict(gpu.info),
        "limits": dict(gpu.limits),
        "cpu": cpu_name(),
        "software": software,
        "note": SOFTWARE if software else None,
    }


def header_line(gpu: GPU, date: str) -> str:
    """Adapter and back end, driver as far as it is told, wgpu's version, date."""
    info = gpu.info
    driver = ", ".join(dict.fromkeys(info[key] for key in ("vendor", "description") if info[key])) or "not told"
    return f"{gpu.name}, driver: {driver}, wgpu {importlib.metadata.version('wgpu')}, {date}"
