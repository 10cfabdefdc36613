"""How the answers of exercise 08 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt
from pagedlab.grading.tasks.ex08.step import step
from pagedlab.grading.tasks.values import values


def price(objects: dict[str, Any], case: dict) -> dict:
    sizes, kept = (case["num_tokens"], case["block_size"]), list(case["kept"])
    return {
        "swap": attempt(objects["swap_bytes"], *sizes, case["bytes"]),
        "recompute": attempt(objects["recompute_tokens"], *sizes, kept),
        "kept": attempt(lambda: kept),
    }


def choice(objects: dict[str, Any], case: dict) -> dict:
    given = list(case["sizes"]), dict(case["machine"])
    return {"sizes": attempt(objects["swap_pays"], case["num_tokens"], *given), "given": attempt(lambda: given)}


PROBES = {"08.1": price, "08.2": choice, "08.3": step, "08.4": values}
