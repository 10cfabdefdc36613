"""How the answers of exercise 04 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt


def waste(objects: dict[str, Any], case: dict) -> dict:
    lengths = list(case["lengths"])
    return {"waste": attempt(objects["waste"], lengths, case["block_size"]), "lengths": attempt(lambda: lengths)}


def admitted(objects: dict[str, Any], case: dict) -> dict:
    prompts = list(case["prompts"])
    arguments = (prompts, case["free_blocks"], case["block_size"], case["places"])
    return {"admitted": attempt(objects["admitted"], *arguments), "prompts": attempt(lambda: prompts)}


def speed(objects: dict[str, Any], case: dict) -> dict:
    return {"batch_and_speed": attempt(objects["batch_and_speed"], **case)}


def prediction(objects: dict[str, Any], case: dict) -> dict:
    return {name: attempt(lambda value=value: value) for name, value in objects.items()}


PROBES = {"04.1": waste, "04.2": admitted, "04.3": speed, "04.4": prediction}
