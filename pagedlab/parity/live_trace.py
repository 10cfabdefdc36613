"""A recording of vLLM's whole engine, against the whole of ours: the same prompts, knobs and weights, and in every step
the same scheduling, the same memory, block for block, and the same tokens from the model.

Nothing stands in for the model here: ``LLM`` decodes SmolLM2 in fp32 on a CPU, as vLLM did. Where the two logits are so
close that rounding decides, the replay goes on with the token that vLLM took, so that what comes later still compares.

Under asynchronous scheduling schedule k+1 comes before update k, here as there. Source: vLLM ``v1/engine/core.py``,
``EngineCore.step`` and ``step_with_batch_queue``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pagedlab.engine import LLM, SamplingParams, refusals
from pagedlab.engine.async_scheduler import AsyncScheduler
from pagedlab.engine.prompts import encode
from pagedlab.engine.request import Request
from pagedlab.engine.scheduler import Scheduler, SchedulerOutput
from pagedlab.errors import PagedlabError
from pagedlab.executor import make_executor
from pagedlab.kv.block import block_ids
from pagedlab.parity.near_ties import FollowingExecutor
from pagedlab.parity.report import POOL_AND_LIMITS, Difference, first_difference, need, need_tokens
from pagedlab.terminal import Progress

MODEL = "smollm2"
MEMORY = ("tables", "computed", "tokens", "free", "cached", "ref_cnt", "running", "waiting")
AHEAD = ("placeholders", "in_flight", "stale")  # recorded of an asynchronous run only
FIELDS = {
    "schedule": ("kind", "n", "call", "scheduled", "start", "new", "resumed", "preempted", *MEMORY),
    "update": ("kind", "of", "call", "sampled", "kept", "finished", *MEMORY),
    "end": ("kind", "calls", "outputs"),
}
# What belongs to each request, in whatever order it is kept; the order of all the others is a decision.
BY_NAME = ("tables", "computed", "tokens", "outputs", *AHEAD)


def compare(
    path: Any, header: dict[str, Any], lines: list[dict[str, Any]], progress: Progress | None = None
) -> tuple[Difference | None, int]:
    """The first difference, or None; and how many near ties were taken as vLLM took them. ``progress`` is told of every
    row. Raises PagedlabError for a recording that cannot be read as one, and for one that our engine cannot repeat."""
    where = f"{path}, line 1"
    check_header(header, where)
    sampled = check_rows(path, lines, header["async_scheduling"])
    executor = FollowingExecutor(make_executor(MODEL, device="cpu", dtype="float32"), sampled)
    replay = LiveReplay(header, where, executor)
    counted = progress.of(f"{path.name}, row", lines, len(lines)) if progress else lines
    return replay.other_prompt() or first_different_row(counted, replay.rows()), executor.num_near_ties


def first_different_row(lines: Iterable[dict[str, Any]], ours: Iterable[dict[str, Any]]) -> Difference | None:
    """``lines``: of the recording, after its header. Both sides end with their first row of kind "end", so one that is
    shorter differs in the kind of a row."""
    for number, (line, row) in enumerate(zip(lines, ours, strict=False), start=2):
        places = {"schedule": f"schedule {line.get('n')}", "update": f"update of schedule {line.get('of')}"}
        where = f"{places.get(line['kind'], 'the end')} (line {number})"
        if line["kind"] != row["kind"]:
            return Difference(where, "kind", line["kind"], row["kind"])
        by_name = {field: dict(sorted(line[field].items())) for field in BY_NAME if isinstance(line.get(field), dict)}
        found = first_difference(where, line | by_name, row)
        if found:
            return found
    return None


# ---------------------------------------------------------------------------------------------------- what is read


def check_header(header: dict[str, Any], where: str) -> None:
    """Raises PagedlabError for a run that cannot be repeated here: a broken header, and what ours cannot do."""
    need(header, where, **POOL_AND_LIMITS, async_scheduling=bool, dtype=str, stop_token_ids=list, requests=list)
    if header["async_scheduling"] and header.get("batches_in_flight", 2) != 2:
        raise PagedlabError(
            f"{where}: batches_in_flight is {header['batches_in_flight']!r}; our engine plans one step ahead, and can "
            "replay what was recorded with 2."
        )
    if header["dtype"] != "float32":
        raise PagedlabError(
            f"{where}: dtype is {header['dtype']!r}; only recordings in float32 can be replayed, where rounding is too "
            "small to choose another token."
        )
    names = set()
    for item in header["requests"]:
        if not isinstance(item, dict):
            raise PagedlabError(f"{where}: each request must be an object.")
        need(item, where, req=str, arrive=int, text=str, tokens=list, max_tokens=int, stop_at=bool)
        need_tokens(item["tokens"], where)
        if item["req"] in names:
            raise PagedlabError(f"{where}: two requests are called {item['req']!r}.")
        names.add(item["req"])


def fields_of(kind: str, ahead: bool) -> tuple[str, ...]:
    """Of a line of this kind. ``ahead``: in an asynchronous run."""
    return FIELDS[kind] + AHEAD * (ahead and kind != "end")


def check_rows(path: Any, lines: list[dict[str, Any]], ahead: bool = False) -> dict[int, dict[str, list[int]]]:
    """The tokens that vLLM sampled: by number of the schedule, then by request. Raises PagedlabError for a line that is
    none of a recording's, and for a recording that does not go to its end."""
    sampled: dict[int, dict[str, list[int]]] = {}
    for number, line in enumerate(lines, start=2):
        where, kind = f"{path}, line {number}", line.get("kind")
        if not isinstance(kind, str) or kind not in FIELDS:
            raise PagedlabError(f"{where} is of kind {kind!r}; known are {', '.join(FIELDS)}.")
        if (kind == "end") != (number == len(lines) + 1):
            break
        fields = fields_of(kind, ahead)
        need(line, where, **dict.fromkeys(fields, object))
        unknown = [name for name in line if name not in fields]
        if unknown:
            raise PagedlabError(f"{where} has the field {unknown[0]!r}; a line {kind!r} has {', '.join(fields)}.")
        if kind == "update":
            need(line, where, of=int, sampled=dict)
            for tokens in line["sampled"].values():
                if not isinstance(tokens, list):
                    raise PagedlabError(f"{where}: 'sampled' must give a list of tokens for each request.")
                need_tokens(tokens, where)
            sampled[line["of"]] = line["sampled"]
    else:
        if lines:
            return sampled
    raise PagedlabError(f"{path} is cut off, or was put together: its one line of kind 'end' must be the last.")


# ------------------------------------------------------------------------------------------------------- the replay


def quiet_llm(**knobs: Any) -> LLM:
    """Without a word on what a CPU does not gain: nobody measures time here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=re.escape(refusals.NOTHING_TO_OVERLAP))
        return LLM(**knobs)


class LiveReplay:
    """Our engine under the header's knobs, fed with its requests as they arrive."""

    def __init__(self, header: dict[str, Any], where: str, executor: FollowingExecutor) -> None:
        self.header, self.where, self.executor = header, where, executor
        self.new_rows: list[dict[str, Any]] = []
        self.outputs: dict[str, list[int]] = {}
        self.num_calls = self.num_schedules = self.num_updates = 0
        self.any_finished = False
        self.is_ahead = header["async_scheduling"]
        # No more can run in one step than all requests, each with all its tokens: room for more would only take memory.
        most_seqs = max(1, len(header["requests"]))
        most_tokens = most_seqs * executor.model_config.max_model_len
        self.llm: LLM = self._checked(
            quiet_llm,
            executor=executor,
            scheduler=self._scheduler,
            async_scheduling=self.is_ahead,
            num_gpu_blocks_override=header["num_blocks"],
            block_size=header["block_size"],
            enable_prefix_caching=header["enable_caching"],
            max_num_seqs=min(header["max_num_seqs"], most_seqs),
            max_num_batched_tokens=min(header["max_num_batched_tokens"], most_tokens),
            max_model_len=header["max_model_len"],
        )

    def other_prompt(self) -> Difference | None:
        """The first request whose text is other tokens here than in vLLM."""
        for item in self.header["requests"]:
            tokens = self._checked(
                encode,
                prompt=item["text"],
                tokenizer=self.llm.tokenizer,
                vocab_size=self.llm.executor.model_config.vocab_size,
            )
            found = first_difference(f"request {item['req']!r} (line 1)", item, {"tokens": tokens})
            if found:
                return found
        return None

    def rows(self) -> Iterator[dict[str, Any]]:
        """Our side of every line after the header, one step after the other.

        vLLM's engine schedules where a request is unfinished, and also in the step after one has finished, to tell its
        worker so: then it may schedule nothing. Where there is nothing to tell either, a step leaves no line.
        """
        to_come = list(self.header["requests"])
        while to_come or self.llm.has_unfinished_requests() or self.any_finished:
            while to_come and to_come[0]["arrive"] <= self.num_calls:
                self._add(to_come.pop(0))
            if self.any_finished and not self.llm.scheduler.has_unfinished_requests():
                self.num_schedules += 1
                self.llm.under_way.append(self.llm._start())
                self._step()
            elif self.llm.has_unfinished_requests():
                self.num_schedules += self.llm.scheduler.has_unfinished_requests()
                self._step()
            else:
                self.num_calls = to_come[0]["arrive"] - 1  # idle until then
            yield from self.new_rows
            self.new_rows = []
            self.num_calls += 1
        yield {"kind": "end", "calls": self.num_calls, "outputs": dict(sorted(self.outputs.items()))}

    def _step(self) -> None:
        self.executor.schedule = self.num_schedules
        for output in self._checked(self.llm.step):
            self.outputs[output.request_id] = output.outputs[0].token_ids

    def _add(self, item: dict[str, Any]) -> None:
        self._checked(
            lambda: self.llm.add_request(
                item["tokens"],
                SamplingParams(
                    max_tokens=item["max_tokens"],
                    ignore_eos=True,
                    stop_token_ids=self.header["stop_token_ids"] if item["stop_at"] else None,
                ),
                request_id=item["req"],
            )
        )

    def _checked(self, work: Callable[..., Any], **arguments: Any) -> Any:
        """What our engine refuses, vLLM would not have recorded."""
        try:
            return work(**arguments)
        except ValueError as error:
            raise PagedlabError(f"{self.where}: our engine cannot repeat this run. {error}") from None

    # -------------------------------------------------------------------------------------- what the scheduler tells

    def _scheduler(self, kv_cache_manager: Any, **limits: int) -> Scheduler:
        return (ToldAsyncScheduler if self.is_ahead else ToldScheduler)(self, kv_cache_manager, **limits)

    def scheduled(self, output: SchedulerOutput) -> None:
        """After ``schedule``, which in vLLM has already counted the step's tokens as computed; one step ahead ours has,
        too."""
        counts = output.num_scheduled_tokens
        under_way = {} if self.is_ahead else counts
        requests = self.llm.requests
        start = {name: requests[name].num_computed_tokens - counts[name] * self.is_ahead for name in counts}
        row = {
            "kind": "schedule",
            "n": self.num_schedules,
            "call": self.num_calls,
            "scheduled": dict(counts),
            "start": start,
            "new": {request.request_id: start[request.request_id] for request in output.new},
            "resumed": {request.request_id: start[request.request_id] for request in output.resumed},
            "preempted": [request.request_id for request in output.preempted],
        }
        self.new_rows.append(row | self._memory(under_way))

    def updated(self, sampled: dict[str, int], kept: dict[str, list[int]], finished: list[Request]) -> None:
        """After ``update_from_output``."""
        self.any_finished = bool(finished)
        self.num_updates += 1
        row = {
            "kind": "update",
            "of": self.num_updates,
            "call": self.num_calls,
            "sampled": {name: [token] for name, token in sampled.items()},
            "kept": kept,
            "finished": {r.request_id: r.finish_reason for r in self.llm.requests.values() if r in finished},
        }
        self.new_rows.append(row | self._memory({}))

    def _memory(self, under_way: dict[str, int]) -> dict[str, Any]:
        """``under_way``: tokens that are scheduled and not yet counted."""
        scheduler, manager, pool = self.llm.scheduler, self.llm.kv_cache_manager, self.llm.block_pool
        requests = sorted(
            (r for r in self.llm.requests.values() if r.status != "finished"), key=lambda request: request.request_id
        )
        ahead = {
            "placeholders": {r.request_id: r.num_output_placeholders for r in requests},
            "in_flight": {r.request_id: r.num_in_flight_tokens for r in requests},
            "stale": {r.request_id: r.num_stale_output_tokens for r in requests if r.num_stale_output_tokens},
        }
        return (ahead if self.is_ahead else {}) | {
            "tables": {name: block_ids(blocks) for name, blocks in sorted(manager.req_to_blocks.items()) if blocks},
            "computed": {r.request_id: r.num_computed_tokens + under_way.get(r.request_id, 0) for r in requests},
            "tokens": {r.request_id: r.num_tokens for r in requests},
            "free": block_ids(pool.free_block_queue.get_all_free_blocks()),
            "cached": [block.block_id for block in pool.blocks if block.block_hash is not None],
            "ref_cnt": [block.ref_cnt for block in pool.blocks],
            "running": [request.request_id for request in scheduler.running],
            "waiting": [request.request_id for request in scheduler.waiting],
        }


class Told:
    """A scheduler of ours, which tells the replay what it did after each of its two halves."""

    def __init__(self, replay: LiveReplay, kv_cache_manager: Any, **limits: int) -> None:
        super().__init__(kv_cache_manager, **limits)
        self.replay = replay

    def update_from_output(self, output: SchedulerOutput, sampled: dict[str, int], is_stop: Any) -> list[Request]:
        requests = self.replay.llm.requests
        before = {name: request.num_tokens for name, request in requests.items()}
        finished = super().update_from_output(output, sampled, is_stop)
        kept = {name: request.all_token_ids[before[name] :] for name, request in requests.items()}
        self.replay.updated(sampled, {name: tokens for name, tokens in kept.items() if tokens}, finished)
        return finished


class ToldScheduler(Told, Scheduler):
    def schedule(self) -> SchedulerOutput:
        output = super().schedule()
        self.replay.scheduled(output)
        return output


class ToldAsyncScheduler(Told, AsyncScheduler):
    def update_after_schedule(self, output: SchedulerOutput) -> None:
        super().update_after_schedule(output)
        self.replay.scheduled(output)
