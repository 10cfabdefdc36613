"""New recordings from an installed vLLM, with other seeds, pools and block sizes: the same two kinds that we are
compared with.

A recording is random traffic, made from a seed, and what vLLM's own classes did with it. So a reader with a newer
vLLM can see whether it still decides as we do."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.parity import vllm_side
from pagedlab.parity.sched_trace import formula

MAX_STEPS = 20_000
FORMULAS = (
    "(int(req[1:])*7919 + position*104729) % 997 + 3",
    "position*104729 % 997 + 3",  # equal prompts go on equally, so that blocks filled by decoding are hit too
)


def record(out: Path, *, seed: int = 0, count: int = 10) -> list[Path]:
    """Write ``count`` recordings of vLLM's KVCacheManager and ``count`` of its V1 Scheduler to the folder ``out``.

    Returns the files. Raises PagedlabError where vLLM is not installed or ``out`` cannot be written.
    """
    if count < 1:
        raise PagedlabError(f"count is {count}; it must be at least 1.")
    version = vllm_side.installed_version()
    out = Path(out)
    files = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        for number in range(seed, seed + count):
            for name, make in (("kv", record_kv), ("sched", record_sched)):
                path = out / f"{name}-{number:04d}.jsonl.gz"
                lines = make(number, version)
                text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
                path.write_bytes(gzip.compress(text.encode(), mtime=0))
                files.append(path)
    except OSError as error:
        raise PagedlabError(f"The recordings could not be written to {out}: {error.strerror or error}.") from error
    return files


# ------------------------------------------------------------------------------------------------ the manager


def record_kv(
    seed: int, version: str, num_operations: int = 600, events: list[bytes] | None = None
) -> list[dict[str, Any]]:
    """A header and one line for each operation. ``events`` gets the payload of vLLM's KV events for each that had
    any."""
    rng = Random(seed)
    block_size = rng.choice(range(1, 17))
    num_blocks = rng.choice((8, 12, 16, 24, 40, 64, 150))
    header = {
        "kind": "header",
        "engine": f"vllm {version} KVCacheManager",
        "seed": seed,
        "num_blocks": num_blocks,
        "block_size": block_size,
        "enable_caching": rng.random() < 0.75,
    }
    traffic = _KVTraffic(header, rng)
    lines = [header]
    for number in range(num_operations):
        lines.append(traffic.operation())
        new_events = traffic.manager.take_events()
        if events is not None and new_events:
            events.append(vllm_side.encode_events(new_events, float(number)))
    return lines


class _KVTraffic:
    """Random operations on vLLM's manager, each returned as its line."""

    def __init__(self, header: dict[str, Any], rng: Random) -> None:
        self.rng, self.header = rng, header
        self.manager = vllm_side.make_manager(
            header["num_blocks"], header["block_size"], header["enable_caching"], events=True
        )
        self.make_request = vllm_side.request_maker(header["block_size"], header["enable_caching"])
        self.prompts: list[list[int]] = []
        self.running: dict[str, Any] = {}
        self.waiting: dict[str, Any] = {}
        self.num_requests = 0
        self.draining = False

    def operation(self) -> dict[str, Any]:
        self.draining = self.draining or self.rng.random() < 0.01
        if self.draining:  # from time to time all finish, so that the cache can be reset
            op = "free" if self.running else "reset_prefix_cache"
            self.draining = bool(self.running)
        else:
            possible = ["add"] * 4 + ["reset_prefix_cache"] * (self.rng.random() < 0.1)
            possible += ["decode"] * 12 + ["free"] * 2 + ["preempt"] if self.running else []
            possible += ["resume"] * 3 if self.waiting else []
            op = self.rng.choice(possible)
        line = {"op": op} | getattr(self, "_" + op)()
        line["free"], line["cached"] = vllm_side.free_and_cached(self.manager.block_pool)
        return line

    def _add(self) -> dict[str, Any]:
        longest = self.header["block_size"] * max(2, self.header["num_blocks"] // 3)
        tokens = random_prompt(self.rng, self.prompts, self.header["block_size"], longest)
        request_id, self.num_requests = f"r{self.num_requests}", self.num_requests + 1
        request = self.make_request(request_id, tokens, vllm_side.sampling_params(1))
        result = self._admit(request_id, request)
        return {"req": request_id, "tokens": tokens} | result

    def _resume(self) -> dict[str, Any]:
        request_id = self.rng.choice(list(self.waiting))
        request = self.waiting[request_id]
        result = self._admit(request_id, request)
        if result["admitted"]:
            del self.waiting[request_id]
        return {"req": request_id} | result

    def _admit(self, request_id: str, request: Any) -> dict[str, Any]:
        hits, num_hit = self.manager.get_computed_blocks(request)[:2]
        new = self.manager.allocate_slots(request, request.num_tokens - num_hit, num_hit, hits)
        if new is None:
            return {"admitted": False, "num_computed": num_hit, "blocks": None}
        request.num_computed_tokens = request.num_tokens
        self.running[request_id] = request
        return {"admitted": True, "num_computed": num_hit, "blocks": self.manager.get_block_ids(request_id)[0]}

    def _decode(self) -> dict[str, Any]:
        request_id = self.rng.choice(list(self.running))
        request = self.running[request_id]
        token = self.rng.randrange(3, 1000)
        request.append_output_token_ids(token)
        if self.manager.allocate_slots(request, 1) is None:
            self._give_back(request_id)
            return {"req": request_id, "token": token, "allocated": False, "blocks": None}
        request.num_computed_tokens += 1
        return {
            "req": request_id,
            "token": token,
            "allocated": True,
            "blocks": self.manager.get_block_ids(request_id)[0],
        }

    def _preempt(self) -> dict[str, Any]:
        request_id = self.rng.choice(list(self.running))
        self._give_back(request_id)
        return {"req": request_id}

    def _free(self) -> dict[str, Any]:
        request_id = self.rng.choice(list(self.running))
        self.manager.free(self.running.pop(request_id))
        return {"req": request_id}

    def _reset_prefix_cache(self) -> dict[str, Any]:
        return {"done": self.manager.reset_prefix_cache()}

    def _give_back(self, request_id: str) -> None:
        request = self.waiting[request_id] = self.running.pop(request_id)
        self.manager.free(request)
        request.num_computed_tokens = 0


# ---------------------------------------------------------------------------------------------- the scheduler


def record_sched(seed: int, version: str) -> list[dict[str, Any]]:
    """A header and one line for each step, until all requests have finished."""
    header = _sched_header(seed, version)
    scheduler = vllm_side.make_scheduler(header)
    next_token = formula(header["next_token"], "the header")
    make_request = vllm_side.request_maker(header["block_size"], header["enable_caching"])
    requests = {
        item["req"]: make_request(item["req"], item["tokens"], vllm_side.sampling_params(item["max_tokens"]))
        for item in header["requests"]
    }
    lines = [header]
    for step in range(MAX_STEPS):
        for item in header["requests"]:
            if item["arrive"] == step:
                scheduler.add_request(requests[item["req"]])
        output = scheduler.schedule()
        scheduled = dict(output.num_scheduled_tokens)
        free, _ = vllm_side.free_and_cached(scheduler.kv_cache_manager.block_pool)
        line = {
            "step": step,
            "scheduled": scheduled,
            "new": {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs},
            "resumed": sorted(output.scheduled_cached_reqs.resumed_req_ids),
            "preempted": sorted(output.preempted_req_ids or ()),
            "tables": {request_id: scheduler.kv_cache_manager.get_block_ids(request_id)[0] for request_id in scheduled},
            "free": free,
        }
        # schedule() has already counted the step's tokens as computed.
        sampled = {
            request_id: next_token(request_id, requests[request_id].num_tokens)
            if requests[request_id].num_computed_tokens == requests[request_id].num_tokens
            else None
            for request_id in scheduled
        }
        scheduler.update_from_output(output, vllm_side.model_output(sampled))
        lines.append(
            line
            | {
                "finished": sorted(request_id for request_id in scheduled if requests[request_id].is_finished()),
                "running": [request.request_id for request in scheduler.running],
                "waiting": [request.request_id for request in scheduler.waiting],
            }
        )
        if all(request.is_finished() for request in requests.values()):
            return lines
    raise PagedlabError(
        f"vLLM did not finish the requests of seed {seed} within {MAX_STEPS} steps; nothing was written for it."
    )


def _sched_header(seed: int, version: str) -> dict[str, Any]:
    rng = Random(seed)
    block_size = rng.choice(range(1, 17))
    max_model_len = rng.choice((24, 64, 160, 400))
    prompts: list[list[int]] = []
    requests, arrive = [], 0
    for i in range(rng.choice((8, 20, 40))):
        arrive += rng.choice((0, 0, 1, 2, 9))
        tokens = random_prompt(rng, prompts, block_size, max_model_len - 1)
        requests.append(
            {"req": f"r{i}", "arrive": arrive, "tokens": tokens, "max_tokens": rng.randint(1, max_model_len // 2)}
        )
    # The largest request must fit, or vLLM would wait for ever; from just that much to plenty.
    longest = max(min(len(item["tokens"]) + item["max_tokens"], max_model_len) for item in requests)
    num_blocks = 1 + int(-(-longest // block_size) * rng.choice((1, 1, 1.2, 1.5, 2, 4, 10)))
    max_num_seqs = rng.choice((1, 2, 4, 8, 32))
    return {
        "kind": "header",
        "engine": f"vllm {version} V1 Scheduler",
        "seed": seed,
        "num_blocks": num_blocks,
        "block_size": block_size,
        "enable_caching": rng.random() < 0.75,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max(max_num_seqs, rng.choice((1, 4, 16, 48, 128, 2048))),
        "max_model_len": max_model_len,
        "next_token": rng.choice(FORMULAS),
        "requests": requests,
    }


def random_prompt(rng: Random, prompts: list[list[int]], block_size: int, longest: int) -> list[int]:
    """1 to ``longest`` tokens; often the start of an earlier prompt, or all of it, and often whole blocks. Appended
    to ``prompts``."""
    start: list[int] = []
    if prompts and rng.random() < 0.6:
        earlier = rng.choice(prompts)
        start = earlier[: len(earlier) if rng.random() < 0.3 else rng.randint(1, len(earlier))]
    num_new = rng.choice((0, 1, block_size, 2 * block_size, rng.randint(1, max(1, longest // 2))))
    tokens = (start + [rng.randrange(3, 1000) for _ in range(max(num_new, 0 if start else 1))])[:longest]
    if rng.random() < 0.3 and len(tokens) > block_size:
        tokens = tokens[: len(tokens) // block_size * block_size]
    prompts.append(tokens)
    return tokens
