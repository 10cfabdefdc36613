"""How the answers of exercise 03 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt, failed, raised, told


def table(objects: dict[str, Any], case: dict) -> dict:
    make = objects["BlockTable"]
    try:
        table, other, third = make(case["block_size"]), make(case["block_size"]), make(case["block_size"])
    except Exception as error:
        return failed(error) if isinstance(error, NotImplementedError) else {"made": told(error)}
    new = [attempt(len, other)]
    lengths = []
    for block_ids in case["appends"]:
        done = attempt(_append, table, list(block_ids))
        lengths.append(done if raised(done) else attempt(len, table))
    new.append(attempt(len, other))
    handed_in = list(case["appends"][0])
    attempt(_append, third, handed_in)
    handed_in.append(99)
    return {
        "made": None,
        "new": new,
        "lengths": lengths,
        "kept": attempt(len, third),
        "inside": [attempt(_locate, table, position) for position in case["inside"]],
        "outside": [_refusal(table, position) for position in case["outside"]],
    }


def _append(table: Any, block_ids: list[int]) -> None:
    table.append(block_ids)  # what it returns is its own business


def _locate(table: Any, position: int) -> Any:
    return table.locate(position)


def _refusal(table: Any, position: int) -> Any:
    try:
        table.locate(position)
    except IndexError:
        return "IndexError"
    except Exception as error:
        return failed(error)
    return attempt(table.locate, position)


def slots(objects: dict[str, Any], case: dict) -> dict:
    block_ids = list(case["block_ids"])
    padding = {"pad_to": case["pad_to"]} if case["pad_to"] else {}
    found = attempt(objects["slot_mapping"], block_ids, case["block_size"], case["start"], case["end"], **padding)
    return {"slots": found, "block_ids": attempt(lambda: block_ids)}


def prediction(objects: dict[str, Any], case: dict) -> dict:
    return {name: attempt(lambda value=value: value) for name, value in objects.items()}


PROBES = {"03.1": table, "03.2": slots, "03.3": prediction, "03.4": prediction}
