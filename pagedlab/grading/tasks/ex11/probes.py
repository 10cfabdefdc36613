"""How the answers of exercise 11 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt
from pagedlab.grading.tasks.values import values


def costs(objects: dict[str, Any], case: dict) -> dict:
    lengths = list(case["lengths"])
    return {"costs": attempt(objects["costs"], lengths, case["block_size"], case["common"])}


def best(objects: dict[str, Any], case: dict) -> dict:
    lists = list(case["sizes"]), list(case["lengths"])
    size = attempt(objects["best_block_size"], *lists, case["num_slots"], case["max_entries"])
    return {"size": size, "changed": lists != (case["sizes"], case["lengths"])}


PROBES = {"11.1": costs, "11.2": best, "11.3": values}
