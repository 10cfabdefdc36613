"""How the answers of exercise 13 are asked for. Each call gets lists and dicts of its own."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import attempt


def step(objects: dict[str, Any], case: dict) -> Any:
    running, waiting = ([dict(request) for request in case[queue]] for queue in ("running", "waiting"))
    return attempt(objects["step"], running, waiting, case["budget"], case["seats"], case["chunked"])


def samples(objects: dict[str, Any], case: dict) -> Any:
    requests = [dict(request) for request in case["requests"]]
    return attempt(objects["samples"], requests, [tuple(share) for share in case["shares"]])


def ahead(objects: dict[str, Any], case: dict) -> Any:
    return attempt(objects["plan_ahead"], dict(case["request"]), case["budget"], case["block_size"])


def late(objects: dict[str, Any], case: dict) -> Any:
    given = [list(case[name]) for name in ("sampled", "stops")]
    return attempt(objects["one_ahead"], case["prompt"], *given, case["max_tokens"], case["block_size"])


PROBES = {"13.1": step, "13.2": samples, "13.3": ahead, "13.4": late}
