"""Part 17.1: the first token that differs, in each request of two traces."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex17 import probes
from pagedlab.trace.events import to_dict

LEFT_OUT = ("slot_written", "blocks_allocated", "blocks_freed", "block_cached", "block_evicted", "block_touched")


def right(case: dict) -> dict[str, list[int] | None]:
    one, other = _answers(case["one"]), _answers(case["other"])
    result: dict[str, list[int] | None] = {}
    for name in one.keys() & other.keys():
        pairs = zip(one[name], other[name], strict=False)
        found = next((i for i, (a, b) in enumerate(pairs) if a[0] != b[0]), None)
        result[name] = None if found is None else [found, one[name][found][0], other[name][found][0],
                                                   one[name][found][1], other[name][found][1]]  # fmt: skip
    return result


def _answers(lines: list[str]) -> dict[str, list[tuple[int, int]]]:
    """(token, step) of each token that was chosen for a request. One without a token is among them, and empty."""
    answers: dict[str, list[tuple[int, int]]] = {}
    step = 0
    for event in map(json.loads, lines[1:]):
        if event["kind"] == "step_started":
            step = event["step"]
        elif event["kind"] == "request_arrived":
            answers[event["request_id"]] = []
        elif event["kind"] == "token_sampled":
            answers[event["request_id"]].append((event["token_id"], step))
    return answers


def _cases(rng: random.Random, seed: int) -> list[dict]:
    fixed = random.Random("17.1 always")
    kinds = ("same", "flip", "first", "last", "short", "again", "missing", "none yet", "mixed", "order")
    return [*(_case(fixed, kind) for kind in kinds), *twice(_drawn, rng, "17.1")]


def _drawn(rng: random.Random) -> list[dict]:
    return [_case(rng, kind) for kind in ("flip", "short", "again", "missing", "mixed", "order")]


def _case(rng: random.Random, kind: str) -> dict:
    """Two runs of the same requests by the package's scheduler, in other batches; then, in some answers of the second,
    other tokens from one place on, as after a flip."""
    many = 1 if kind in ("same", "flip", "first", "last", "short", "again") else rng.randint(3, 6)
    requests = [(f"q{rng.randint(10, 99)}{i}", rng.randint(3, 14), rng.randint(4, 9)) for i in range(many)]
    one = _run(requests, rng.randint(8, 64), blocks=60)
    if kind in ("mixed", "order", "missing", "none yet"):
        rng.shuffle(requests)
    gone = requests.pop()[0] if kind == "missing" else None
    other = _run(requests, rng.choice((4, 6, 9)), blocks=60 if many == 1 else 9)
    for name, _, count in requests:
        if kind == "same" or kind in ("mixed", "missing") and rng.random() < 0.4:
            continue
        at = {"first": 0, "last": count - 1}.get(kind, rng.randrange(1, count - 1))
        other = _changed(other, name, at, back=kind == "again")
    if kind == "short":  # cut behind or before the flip
        other = _cut(other, requests[0][0], keep=rng.randint(1, 3))
    if kind == "none yet":
        other = _cut(other, requests[0][0], keep=0)
    if gone and rng.random() < 0.5:
        one, other = other, one
    return {"kind": kind, "one": one, "other": other}


def _run(requests: list[tuple[str, int, int]], budget: int, blocks: int) -> list[str]:
    from pagedlab.engine import LLM, SamplingParams

    knobs = {"block_size": 4, "num_gpu_blocks_override": blocks, "max_num_batched_tokens": budget, "max_num_seqs": 4}
    llm = LLM(device="counting", record=True, max_model_len=30, **knobs)
    for name, length, count in requests:
        prompt = [5 + (7 * length + 3 * i) % 80 for i in range(length)]
        llm.add_request(prompt, SamplingParams(max_tokens=count, ignore_eos=True), request_id=name)
        llm.step()
    while llm.has_unfinished_requests():
        llm.step()
    events = [to_dict(event) for event in llm.trace.events if event.kind not in LEFT_OUT]
    for event in events:
        if "seconds" in event:
            event["seconds"] = 0.0  # the same run is the same case
    return [json.dumps(one) for one in ({"kind": "header", "config": llm.trace.header["config"]}, *events)]


def _changed(lines: list[str], name: str, at: int, back: bool) -> list[str]:
    """Other tokens in this answer from ``at`` on; ``back``: at this place alone, and then those that were there."""
    index, out = 0, []
    for event in map(json.loads, lines):
        if event["kind"] == "token_sampled" and event["request_id"] == name:
            if index == at or index > at and not back and index % 3:
                event["token_id"] = event["token_id"] + 1 + index
            index += 1
        out.append(json.dumps(event))
    return out


def _cut(lines: list[str], name: str, keep: int) -> list[str]:
    """The answer of this request ends after so many tokens."""
    out, index = [], 0
    for line in lines:
        event = json.loads(line)
        if event["kind"] == "token_sampled" and event["request_id"] == name:
            index += 1
            if index > keep:
                continue
        out.append(line)
    return out


def _words(case: dict) -> str:
    return f"two traces of {len(case['one'])} and {len(case['other'])} lines"


def _shape(case: dict, answer: Any) -> str | None:
    if type(answer) is not dict or raised(answer):
        return f"for {_words(case)} first_flips gave {show(answer)}"
    for name, flip in answer.items():
        good = flip is None or type(flip) is list and len(flip) == 5 and all(is_int(n) for n in flip)
        if not good:
            return f"for {_words(case)} it gave {show(flip)} for {name!r}"
    return None


def _names(case: dict, answer: Any) -> str | None:
    expected = right(case)
    if answer.keys() == expected.keys():
        return None
    return f"for {_words(case)}: {sorted(answer)}, expected are {sorted(expected)}"


def _of(wrong: Callable[[list | None, list | None], bool]) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        for name, true in right(case).items():
            if wrong(answer[name], true):
                return f"for {_words(case)}: {name!r} gave {show(answer[name])}, expected is {show(true)}"
        return None

    return broken


FLIPS = Part(
    "17.1",
    "the first flip of each request in two traces",
    4,
    ("first_flips",),
    _cases,
    probes.flips,
    (
        Property(
            "first_flips returns a dict: None, or five ints, for each request",
            _shape,
            ("{'A': (8, 1963, 29879, 9, 12), 'B': None}, for example.",),
        ),
        Property(
            "its keys are the requests that arrived in both traces",
            _names,
            ("One that arrived in a single trace is left out. One that has no token yet is there.",),
        ),
        Property(
            "None where one answer is the other's beginning",
            _of(lambda found, true: (found is None) != (true is None)),
            ("Compare as far as both go. A shorter answer is no other answer.",),
        ),
        Property(
            "the first place where the tokens differ, counted from 0 in the answer",
            _of(lambda found, true: true is not None and found[0] != true[0]),
            (
                "Behind the first one there may be more, and tokens that agree again: they say nothing.",
                "An event's position counts the prompt's tokens, too. Requests are matched by their ids.",
            ),
        ),
        Property(
            "both tokens, that of the first trace first",
            _of(lambda found, true: true is not None and found[1:3] != true[1:3]),
            ("token_id of the two events.",),
        ),
        Property(
            "the step in which each of the two chose its token",
            _of(lambda found, true: true is not None and found[3:] != true[3:]),
            (
                "A step begins with step_started and ends with step_ended; both have its number.",
                "The two runs had other batches, so their steps differ.",
            ),
        ),
    ),
)
