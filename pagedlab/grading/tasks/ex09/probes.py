"""How the answers of exercise 09 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt
from pagedlab.grading.tasks.values import values

NAMES = ("card", "free", "utilization", "weights", "activations", "other", "block")


def pool(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["pool_blocks"], *(case[name] for name in NAMES))


def choice(objects: dict[str, Any], case: dict) -> dict:
    runs = []

    def run(utilization: float, max_num_seqs: int) -> dict | None:
        runs.append((utilization, max_num_seqs))
        one = found(case, [utilization, max_num_seqs])
        return dict(one) if one else None

    arguments = list(case["utilizations"]), list(case["limits"]), case["target"], run
    return {"choice": attempt(objects["choose"], *arguments), "runs": len(runs)}


def found(case: dict, choice: list) -> dict | None:
    utilization, limit = choice
    return case["table"][case["utilizations"].index(utilization)][case["limits"].index(limit)]


PROBES = {"09.1": pool, "09.2": choice, "09.3": values}
