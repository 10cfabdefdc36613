"""How the answers of exercise 14 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt


def falls_out(objects: dict[str, Any], case: dict) -> Any:
    table = list(case["table"])
    return attempt(objects["falls_out"], table, case["computed"], case["window"], case["block_size"])


def make_room(objects: dict[str, Any], case: dict) -> Any:
    """The learner's function gets lists of its own: what it does to them does not matter."""
    tables = [list(table) for table in case["tables"]]
    given = (tables, list(case["windows"]), list(case["queue"]), list(case["named"]))
    return attempt(objects["make_room"], *given, case["computed"], case["new"], case["block_size"])


def window_hit(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["window_hit"], list(case["found"]), case["window"], case["block_size"])


def common_hit(objects: dict[str, Any], case: dict) -> dict:
    """``find`` knows the blocks by their keys. ``odd``: what it was asked for that is no bytes."""
    blocks = {bytes.fromhex(key): block for key, block in case["cached"].items()}
    odd: list[str] = []

    def find(key: Any) -> int | None:
        if type(key) is not bytes:
            odd.append(type(key).__name__)
            return None
        return blocks.get(key)

    hashes = [bytes.fromhex(name) for name in case["hashes"]]
    given = (hashes, case["num_tokens"], case["block_size"], list(case["windows"]))
    return {"hit": attempt(objects["common_hit"], *given, find), "odd": odd[:1]}


PROBES = {"14.1": falls_out, "14.2": make_room, "14.3": window_hit, "14.4": common_hit}
