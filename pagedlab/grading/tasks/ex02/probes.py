"""How the answers of exercise 02 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt


def translation(objects: dict[str, Any], case: dict) -> dict:
    size = case["block_size"]
    tables = {name: list(table) for name, table in case["tables"].items()}
    return {
        "there": [attempt(objects["translate"], tables[case["of"]], size, p) for p in case["positions"]],
        "back": [attempt(objects["whose"], tables, size, block, offset) for block, offset in case["places"]],
        "tables": attempt(lambda: tables),
    }


def byte(objects: dict[str, Any], case: dict) -> dict:
    return {"byte": attempt(objects["byte_offset"], tuple(case["strides"]), case["element_size"], *case["at"])}


def prediction(objects: dict[str, Any], case: dict) -> dict:
    return {name: attempt(lambda value=value: value) for name, value in objects.items()}


PROBES = {"02.1": translation, "02.2": byte, "02.3": prediction}
