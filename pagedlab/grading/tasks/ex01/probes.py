"""How the answers of exercise 01 are asked for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt, error_text, failed, is_int, raised


def first_fit(objects: dict[str, Any], case: dict) -> dict:
    """Do a case's work; after each piece of it, what came back and the holes.

    What to release is told by the number of the reserve that was granted, so that the strip's own results are used.
    Stops where they cannot be gone on from. Another strip is there all the while, and nothing is done to it.
    """
    try:
        strip, other = (objects["FirstFit"](case["num_slots"]) for _ in range(2))
    except Exception as error:
        return failed(error) if isinstance(error, NotImplementedError) else {"made": error_text(error), "answers": []}
    answers: list[dict] = []
    granted: list[tuple[int, int]] = []
    for what, number in case["work"]:
        if what == "release" and number >= len(granted):
            break  # it was not granted here
        result = attempt(_reserve, strip, number) if what == "reserve" else attempt(_release, strip, *granted[number])
        answers.append({"result": result, "holes": attempt(lambda: [list(hole) for hole in strip.holes])})
        if what == "reserve" and is_int(result):
            granted.append((result, number))
        elif raised(result) or (what == "reserve" and result is not None):
            break
    return {"made": None, "answers": answers, "other": attempt(lambda: [list(hole) for hole in other.holes])}


def _reserve(strip: Any, length: int) -> Any:
    return strip.reserve(length)


def _release(strip: Any, start: int, length: int) -> None:
    strip.release(start, length)  # what it returns is its own business


def account(objects: dict[str, Any], case: dict) -> dict:
    regions, holes = [tuple(region) for region in case["regions"]], list(case["holes"])
    return {
        "account": attempt(objects["account"], regions, holes, case["needs"]),
        "after": attempt(lambda: [regions, holes]),
    }


def prediction(objects: dict[str, Any], case: dict) -> dict:
    return {name: attempt(lambda value=value: value) for name, value in objects.items()}


PROBES = {"01.1": first_fit, "01.2": account, "01.3": prediction}
