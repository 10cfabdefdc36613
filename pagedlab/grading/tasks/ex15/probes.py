"""How the answers of exercise 15 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt


def memory(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["memory"], case["log"])


def at_once(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["at_once"], case["log"], case["length"])


def mend(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["mend"], case["log"])


def moment(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["moment"], list(case["lines"]), case["step"])


PROBES = {"15.1": memory, "15.2": at_once, "15.3": mend, "15.4": moment}
