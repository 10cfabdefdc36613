"""How the answers of exercise 08 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt
from pagedlab.grading.tasks.ex08.step import step
from pagedlab.grading.tasks.values import values


def price(objects: dict[str, Any], case: dict) -> dict:
    sizes = case["num_tokens"], case["block_size"]
    return {
        "swap": attempt(objects["swap_bytes"], *sizes, case["bytes"]),
        "recompute": attempt(objects["recompute_tokens"], *sizes, list(case["kept"])),
    }


def choice(objects: dict[str, Any], case: dict) -> dict:
    given = case["num_tokens"], list(case["sizes"]), dict(case["machine"])
    return {"sizes": attempt(objects["swap_pays"], *given)}


PROBES = {"08.1": price, "08.2": choice, "08.3": step, "08.4": values}
