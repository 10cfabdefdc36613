"""How the answers of exercise 09 are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pagedlab.grading.plain import attempt
from pagedlab.grading.tasks.values import values

NAMES = ("card", "free", "utilization", "weights", "activations", "other", "block")


def pool(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["pool_blocks"], *(case[name] for name in NAMES))


def choice(objects: dict[str, Any], case: dict, tell: Callable[[Any], Any]) -> dict:
    """What a run gives, only the judge knows; and it counts."""

    def run(utilization: float, max_num_seqs: int) -> dict | None:
        return tell([case["utilizations"].index(utilization), case["limits"].index(max_num_seqs)])

    arguments = list(case["utilizations"]), list(case["limits"]), case["target"], run
    return {"choice": attempt(objects["choose"], *arguments)}


PROBES = {"09.1": pool, "09.2": choice, "09.3": values}
