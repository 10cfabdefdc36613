"""How the answers of exercise 16 are asked for. Each call gets lists and dicts of its own."""

from __future__ import annotations

import copy
from typing import Any

from pagedlab.grading.plain import attempt


def heads(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["split_heads"], case["query_heads"], case["kv_heads"], case["ranks"])


def cards(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["on_each_card"], dict(case["model"]), case["ranks"], case["card"], case["block_size"])


def sums(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["wrong_sum"], *copy.deepcopy([case["parts"], case["sums"]]))


def ranks(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["wrong_rank"], *copy.deepcopy([case["step"], case["heads"], case["ranks"]]))


PROBES = {"16.1": heads, "16.2": cards, "16.3": sums, "16.4": ranks}
