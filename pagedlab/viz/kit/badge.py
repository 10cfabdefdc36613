"""The badge: what produced the picture. Every lab has one."""

from __future__ import annotations

from typing import Any

from pagedlab.viz.kit.labels import printable
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.text import measure


def badge_text(header: dict[str, Any], live: bool) -> str:
    """From a trace's header: "live · CPU · fp32", "live · vLLM 0.32.0 · CPU · fp32", "recorded · NVIDIA H200 · bf16 ·
    2026-07-01"."""
    dtype = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}.get(header.get("dtype"), header.get("dtype"))
    date = None if live else (header.get("date") or "")[:10]
    parts = ("live" if live else "recorded", header.get("engine"), header.get("device"), dtype, date)
    return printable(" · ".join(filter(None, parts)))  # a trace may come from anywhere


def is_a_cpus(header: dict[str, Any]) -> bool:
    """Whether the run's memory is a CPU's: its own, or that of a program which does a GPU's work there."""
    device = str(header.get("device") or "CPU")
    return device.upper() == "CPU" or "(software)" in device


def memory_title(header: dict[str, Any]) -> str:
    """What stands above the pool."""
    return "MEMORY POOL" if is_a_cpus(header) else "GPU MEMORY"


def badge_width(text: str, cls: str = "soft") -> float:
    return measure(text, cls) + 30


def badge_marks(
    text: str,
    live: bool,
    right: float,
    top: float = 21.0,
    cls: str = "soft",
    id: str = "badge",
    tip: str = "What produced this picture",
) -> list[Mark]:
    """A disc, lit where the run is live, and the words, in a box that ends at ``right``. ``cls``: how they are set."""
    w = badge_width(text, cls)
    return [
        Mark(id, (right - w, top, w, 22), "card badge", tip=tip),
        Mark(f"{id}.light", (right - w + 10, top + 7, 8, 8), "cell light" if live else "cell still"),
        Mark(f"{id}.text", (right - w + (23 if "s11" in cls else 24), top + 15), f"text {cls}", text),
    ]
