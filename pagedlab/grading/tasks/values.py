"""The probe of every prediction: what the learner's names stand for."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt


def values(objects: dict[str, Any], case: dict) -> dict:
    return {name: attempt(lambda value=value: value) for name, value in objects.items()}
