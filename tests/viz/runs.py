"""Runs for the tests here, made with the real scheduler, manager and pool: only the model's choice of tokens is made
up.
"""

from __future__ import annotations

import re

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.engine.scheduler import Scheduler
from pagedlab.kv.block_pool import BlockPool
from pagedlab.kv.manager import KVCacheManager
from pagedlab.kv.observed import ObservedBlockPool, ObservedKVCacheManager
from pagedlab.trace import Recorder, Trace, TraceDriver
from pagedlab.trace import events as ev
from pagedlab.viz.kit.scene import Scene

WORDS = ["The", " operating", " system", " maps", " virtual", " pages", " to", " physical", " frames", "\\n"]


def recorded_run(
    prompts: list[list[int]],
    *,
    block_size: int = 4,
    num_blocks: int = 12,
    max_tokens: int = 6,
    budget: int = 64,
    words: list[str] = WORDS,
    arrive_after: list[int] | None = None,
    names: list[str] | None = None,
    max_steps: int = 200,
) -> Trace:
    """The trace of these prompts (token ids), each arriving after a step of its own (default: before the first)."""
    header = {
        "schema": 1,
        "device": "CPU",
        "dtype": "float32",
        "date": "2026-07-01T12:00:00+00:00",
        "live": True,
        "config": {"num_blocks": num_blocks, "block_size": block_size},
        "model_shape": {"num_layers": 30, "num_kv_heads": 3, "head_size": 64, "bytes_per_element": 4},
    }
    recorder = Recorder(header)
    pool = ObservedBlockPool(BlockPool(num_blocks), block_size, recorder)
    manager = ObservedKVCacheManager(KVCacheManager(pool, block_size, 4096), pool, recorder)
    scheduler = Scheduler(manager, max_num_seqs=64, max_num_batched_tokens=budget, max_model_len=4096)
    arrive_after = arrive_after or [0] * len(prompts)
    requests: dict[str, Request] = {}

    def word(token_id: int) -> str:
        return words[token_id % len(words)]

    for step in range(1, max_steps + 1):
        for i, prompt in enumerate(prompts):
            if arrive_after[i] == step - 1:
                name = names[i] if names else chr(ord("A") + i)
                request = Request(name, prompt, SamplingParams(max_tokens=max_tokens), block_size=block_size)
                requests[name] = request
                recorder.emit(
                    ev.RequestArrived(
                        request_id=name, token_ids=tuple(prompt), texts=tuple(map(word, prompt)), max_tokens=max_tokens
                    )
                )
                scheduler.add_request(request)
                recorder.emit(ev.RequestQueued(request_id=name))
        if not scheduler.has_unfinished_requests():
            if step > max(arrive_after):
                break
            continue
        _step(step, scheduler, manager, requests, recorder, word)
    return recorder.trace


def _step(step, scheduler, manager, requests, recorder, word) -> None:
    recorder.emit(ev.StepStarted(step=step))
    output = scheduler.schedule()
    for request in output.preempted:
        recorder.emit(ev.RequestPreempted(request_id=request.request_id))
    for request in output.new + output.resumed:
        recorder.emit(
            ev.RequestAdmitted(request_id=request.request_id, num_computed_tokens=request.num_computed_tokens)
        )
    sampled = {}
    for request_id, num_tokens in output.num_scheduled_tokens.items():
        request = requests[request_id]
        table = manager.get_block_ids(request_id)
        start = request.num_computed_tokens
        for position in range(start, start + num_tokens):
            block, offset = divmod(position, manager.block_size)
            token = request.all_token_ids[position]
            recorder.emit(
                ev.SlotWritten(
                    request_id=request_id,
                    token_id=token,
                    text=word(token),
                    position=position,
                    block_id=table[block],
                    offset=offset,
                )
            )
        if start + num_tokens == request.num_tokens:
            sampled[request_id] = (request.num_tokens * 7 + len(request_id)) % 50
            recorder.emit(
                ev.TokenSampled(
                    request_id=request_id,
                    position=request.num_tokens,
                    token_id=sampled[request_id],
                    text=word(sampled[request_id]),
                )
            )
    for request in scheduler.update_from_output(output, sampled, lambda request: False):
        recorder.emit(ev.RequestFinished(request_id=request.request_id, reason=request.finish_reason))
    recorder.emit(ev.StepEnded(step=step, num_tokens=0, seconds=0.0, device="CPU"))


def crowded() -> Trace:
    """Four requests that do not fit together: chunks, a shared prefix, preemption, eviction, waiting."""
    shared = list(range(10, 18))
    return recorded_run(
        [[*shared, 1, 2, 3], [5, 6, 7, 8, 9], [*shared, 4, 5], list(range(20, 33))],
        max_tokens=12,
        budget=16,
        arrive_after=[0, 0, 2, 4],
    )


def patched(base: dict[str, list], patch: dict) -> dict[str, list]:
    """What lab.js does with a picture and a message that changes it (marks as JSON, by id)."""
    marks = {id: mark for id, mark in base.items() if id not in patch["del"]}
    marks |= {mark[0]: mark for mark in patch["set"]}
    for model, blocks in patch["like"].items():
        parts = [mark for id, mark in marks.items() if _block(id) == model]
        for block in blocks:
            to, origin = marks[block][1], marks[model][1]
            marks = {id: mark for id, mark in marks.items() if _block(id) != block}
            for id, (x, y, *size), cls, *words in parts:
                place = [_tenth(x + to[0] - origin[0]), _tenth(y + to[1] - origin[1]), *size]
                numbered = [_numbered(text, model.split(".")[-1], block.split(".")[-1]) for text in words]
                marks[block + id[len(model) :]] = [block + id[len(model) :], place, cls, *numbered]
    return marks


def _block(id: str) -> str | None:
    found = re.match(r".*?block\.[0-9]+", id, re.DOTALL)
    return found and found[0]


def _numbered(text: str, number: str, other: str) -> str:
    return other if text == number else text.replace(f"#{number}", f"#{other}", 1)


def _tenth(x: float) -> float:
    x = round(x, 1)
    return int(x) if x == int(x) else x


def scenes(trace, selections=None):
    """A scene for every step and every request that has arrived by then."""
    driver = TraceDriver(trace)
    for position in range(driver.num_steps + 1):
        driver.seek(position)
        state = driver.state()
        first = driver.num_events(position - 1) if position else 0
        events = trace.events[first : driver.num_events(position)]
        for selected in [*state.requests] or [None]:
            yield Scene(state, events, trace.header, selected, position, driver.num_steps, live=True)
