"""How the answers of exercise 10 are asked for."""

from __future__ import annotations

import copy
from typing import Any

from pagedlab.grading.plain import attempt
from pagedlab.grading.tasks.values import values


def queue(objects: dict[str, Any], case: dict) -> dict:
    counts = dict(enumerate(case["ref_cnt"]))
    return {
        "after_free": attempt(
            objects["after_free"], list(case["queue"]), list(case["table"]), counts, set(case["hashed"])
        ),
        "after_hit": attempt(objects["after_hit"], list(case["queue"]), list(case["hits"]), case["num_new"]),
    }


def tables(objects: dict[str, Any], case: dict) -> dict:
    calls = copy.deepcopy(case["calls"])
    return {"tables": attempt(objects["tables"], calls), "changed": calls != case["calls"]}


PROBES = {"10.1": tables, "10.2": values, "10.3": queue}
