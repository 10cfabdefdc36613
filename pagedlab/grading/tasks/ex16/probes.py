"""How the answers of exercise 16 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt


def heads(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["split_heads"], case["query_heads"], case["kv_heads"], case["ranks"])


def cards(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["on_each_card"], dict(case["model"]), case["ranks"], case["card"], case["block_size"])


PROBES = {"16.1": heads, "16.2": cards}
