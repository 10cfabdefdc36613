"""How the answers of exercise 03 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt, error_text, failed, raised


def table(objects: dict[str, Any], case: dict) -> dict:
    make = objects["BlockTable"]
    try:
        table, other, third = make(case["block_size"]), make(case["block_size"]), make(case["block_size"])
    except Exception as error:
        return failed(error) if isinstance(error, NotImplementedError) else {"made": error_text(error)}
    new = [attempt(len, other)]
    lengths, lists = [], [list(block_ids) for block_ids in case["appends"]]
    for block_ids in lists:
        done = attempt(_append, table, block_ids)
        lengths.append(done if raised(done) else attempt(len, table))
    new.append(attempt(len, other))
    handed_in = [5, 7]
    attempt(_append, third, handed_in)
    handed_in[:] = [99, 99, 99]
    return {
        "made": None,
        "new": new,
        "lengths": lengths,
        "block_ids": attempt(lambda: list(table.block_ids)) if hasattr(table, "block_ids") else None,
        "lists": attempt(lambda: lists),
        "kept": [attempt(len, third), attempt(_locate, third, 0)],
        "inside": [attempt(_locate, table, position) for position in case["inside"]],
        "outside": [_refusal(table, position) for position in case["outside"]],
    }


def _append(table: Any, block_ids: list[int]) -> None:
    table.append(block_ids)  # what it returns is its own business


def _locate(table: Any, position: int) -> Any:
    return table.locate(position)


def _refusal(table: Any, position: int) -> dict:
    """{"refused": True} where it raised IndexError, else {"returned": what it gave}."""
    try:
        table.locate(position)
    except IndexError:
        return {"refused": True}
    except Exception as error:
        return {"returned": failed(error)}
    return {"returned": attempt(_locate, table, position)}


def slots(objects: dict[str, Any], case: dict) -> dict:
    block_ids = list(case["block_ids"])
    padding = {} if case["pad_to"] is None else {"pad_to": case["pad_to"]}
    found = attempt(objects["slot_mapping"], block_ids, case["block_size"], case["start"], case["end"], **padding)
    return {"slots": found, "block_ids": attempt(lambda: block_ids)}


def prediction(objects: dict[str, Any], case: dict) -> dict:
    return {name: attempt(lambda value=value: value) for name, value in objects.items()}


PROBES = {"03.1": table, "03.2": slots, "03.3": prediction, "03.4": prediction}
