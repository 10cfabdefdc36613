"""From records to :class:`Findings`: one pass, little memory, the last start counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from pagedlab.explain import failures, spellings
from pagedlab.explain.findings import (
    CAPTURING,
    LOADING,
    MEMORY_TAKEN,
    NO_KV_MEMORY,
    OUT_OF_MEMORY,
    PROFILING,
    SERVING,
    Failure,
    Findings,
)
from pagedlab.explain.lines import Record, records
from pagedlab.explain.runtime import Watch

PROVENANCE = re.compile(r"# (source|context): (.+)")
CONTEXT = re.compile(r"(vllm|device|model): (.*?)(?=; (?:vllm|device|model): |$)")
RANK = re.compile(r"DP(\d+)")
STAGE = re.compile(r"Worker\w*_PP\d+")
TEXT = {"vllm_version", "model", "device", "device_name", "kv_cache_dtype"}
GIVEN_GRAPHS = (0, 21)  # the version since which the estimate of CUDA graphs is taken from the pool by default

Figures = dict[str, Any]


@dataclass
class Start:
    """What one start of vLLM has said so far."""

    config: Figures = field(default_factory=dict)
    workers: dict[str, Figures] = field(default_factory=dict)  # by process
    pools: dict[str, list[Figures]] = field(default_factory=dict)  # by data-parallel rank; one for each worker
    watch: Watch = field(default_factory=Watch)
    failure: Failure | None = None
    stopped: str | None = None
    override: Figures = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)  # which of the patterns below were seen
    begun: set[str] = field(default_factory=set)  # engines that said "Initializing"
    loaded: set[str] = field(default_factory=set)  # processes, by name, that said what their weights took

    @property
    def has_run(self) -> bool:
        """Has it come as far as a pool, a failure or a periodic line?"""
        return bool(self.pools or self.failure or self.stopped or self.watch.runtime.lines)


class Reader:
    """Takes records in, keeps the last start."""

    MARKS = {"groups": spellings.GROUPS, "graphs_in": spellings.GRAPHS_ARE_IN, "graphs_out": spellings.GRAPHS_ARE_OUT,
             "v0": spellings.IS_V0}  # fmt: skip

    def __init__(self) -> None:
        self.start = Start()
        self.num_starts = 1
        self.understood = False

    def see(self, record: Record) -> None:
        """Take in one record. What it does not know it leaves alone."""
        text = record.text
        if "PP" in record.process and STAGE.search(record.process):
            self.start.marks.add("stages")
        if not any(word in text for word in spellings.WORDS) and not (
            record.tight and any(word in record.tight for word in spellings.WORDS)
        ):
            return
        if "Received request" in text[:200] or "prompt: '" in text[:400]:
            return  # what somebody asked the model, which may be about vLLM
        if -1 < text.find("Avg prompt throughput") < 40:  # most lines of a long log; they say nothing else
            self.understood |= self.start.watch.see(text, record.process)
            self.start.marks |= {"v0"} if "Swapped: " in text else set()
            return
        self._next_start(record)
        start = self.start
        found = self._config(record) | self._figures(record)
        start.marks |= {name for name, pattern in self.MARKS.items() if pattern.search(text)}
        new = failures.failure(text) or (failures.failure(record.tight) if record.tight else None)
        if new:
            if new.kind == OUT_OF_MEMORY and not new.phase:
                new.phase = self._phase()
            start.failure = failures.merged(start.failure, new)
        elif other := failures.OTHER.search(text):
            named = start.stopped and not start.stopped.startswith("Engine")
            start.stopped = start.stopped if named else other[1].strip()
        watched = start.watch.see(text, record.process)
        self.understood = self.understood or bool(found or new or watched)

    def _next_start(self, record: Record) -> None:
        """Does this record begin another start? By what a start says first, and not twice: its arguments, the
        configuration (once for each data-parallel engine), the weights (once for each process)."""
        start, name, again = self.start, record.name, False
        if spellings.STARTS.search(record.text):
            again = name in start.begun or (start.has_run and not RANK.search(name))
            if not again:
                start.begun.add(name)
        elif spellings.ARGUMENTS.search(record.text):
            again = start.has_run or bool(start.begun)
        elif spellings.WORKER[0].search(record.text):
            again = start.has_run and name in start.loaded
        if again:
            self.start = Start(begun={name} if spellings.STARTS.search(record.text) else set())
            self.num_starts += 1
        if spellings.WORKER[0].search(record.text):
            self.start.loaded.add(name)

    def _phase(self) -> str:
        start = self.start
        if start.watch.runtime.lines:
            return SERVING
        if start.pools:
            return CAPTURING
        if any("weights_gib" in worker for worker in start.workers.values()):
            return PROFILING
        return LOADING if start.begun or "model" in start.config else ""

    def _config(self, record: Record) -> set[str]:
        found = dict(_matches(spellings.CONFIG, record))
        if spellings.STARTS.search(record.text) or spellings.ARGUMENTS.search(record.text):
            found |= dict(_matches(spellings.OPTIONS, record, first=True))
        self.start.config.update(found)
        return set(found) - {"model", "device_name"}

    def _figures(self, record: Record) -> set[str]:
        start, seen = self.start, set()
        override = dict(_matches([spellings.OVERRIDE], record))
        if override.get("profiled_blocks"):  # a minimal pool, for profiling CUDA graphs, is "overridden" from none
            start.override = override
            seen.add("override")
        worker = dict(_matches(spellings.WORKER, record))
        if worker:
            known = start.workers.setdefault(record.process, {})
            if "weights_gib" in worker and "weights_gib" in known:  # of a drafter: the model's are the larger ones
                worker["weights_gib"] = max(worker["weights_gib"], known["weights_gib"])
            known.update(worker)
        rank = RANK.search(record.process)
        for name, value in _matches(spellings.POOL, record):
            pools = start.pools.setdefault(rank[1] if rank else "", [])
            if not pools or name in pools[-1]:
                pools.append({})
            pools[-1][name] = value
            seen.add(name)
        return seen | set(worker)


def _matches(patterns: list[re.Pattern[str]], record: Record, first: bool = False) -> Iterator[tuple[str, Any]]:
    """(name of a figure, its value) for all that ``patterns`` find, or for the ``first`` that each finds (a drafter's
    options come after the model's); in a wrapped line also across the break."""
    for pattern in patterns:
        found = list(pattern.finditer(record.text)) or (list(pattern.finditer(record.tight)) if record.tight else [])
        for one in found[: 1 if first else None]:
            yield from ((name, _value(name, text)) for name, text in one.groupdict().items() if text is not None)


def _value(name: str, text: str) -> Any:
    if name in TEXT:
        return text
    if name == "enforce_eager":
        return text == "True"
    return int(text.replace(",", "")) if name in spellings.WHOLE else float(text)


def read_log(lines: Iterable[str]) -> Findings | None:
    """What ``lines`` say of the last start in them; None where nothing in them is vLLM's."""
    reader, remarks = Reader(), {}

    def noted(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if line.startswith("# ") and (remark := PROVENANCE.match(line)):
                remarks[remark[1]] = remark[2].strip()
            yield line

    for record in records(noted(lines)):
        reader.see(record)
    if not reader.understood:
        return None
    findings = _flat(reader.start)
    findings.num_starts = reader.num_starts
    findings.source = remarks.get("source")
    if "context" in remarks:
        findings.context = {name: value if value != "not stated" else None
                            for name, value in CONTEXT.findall(remarks["context"])}  # fmt: skip
    return findings


def _flat(start: Start) -> Findings:
    """One start as Findings: of the workers the one with the smallest pool, of the pools the smallest."""
    known = {one.name for one in fields(Findings)}
    found = {name: value for name, value in start.config.items() if name in known}
    out = Findings(**found)
    out.device = _device(start.config)
    if out.max_model_len is None and start.config.get("given_max_model_len", 0) > 0:
        out.max_model_len = start.config["given_max_model_len"]
    out.block_size = start.config.get("attention_block_size", out.block_size)
    _take_worker(out, start)
    if out.utilization is None:
        out.utilization = start.config.get("given_utilization")
    _take_pool(out, start)
    out.is_v0 = "v0" in start.marks
    out.has_groups = "groups" in start.marks
    out.pipeline_workers = "stages" in start.marks
    out.graphs_in_activation = _graphs_in_activation(start, out.vllm_version)
    run = start.watch.runtime
    out.runtime = run if run.lines or run.preemptions_printed or run.last_prefix_hit_pct is not None else None
    out.failure, out.stopped = start.failure, start.stopped
    if out.failure:
        _take_failure(out, out.failure)
    return out


def _device(config: Figures) -> str | None:
    if "device_name" in config:
        return config["device_name"].replace("_", " ")
    return config["device"].upper() if "device" in config else None


def _take_worker(out: Findings, start: Start) -> None:
    workers = sorted(
        start.workers.values(), key=lambda worker: (worker.get("kv_cache_gib", float("inf")), -len(worker)))
    names = {one.name for one in fields(Findings)}
    for worker in reversed(workers):  # the first one last: it counts; the others fill in what it did not print
        for name, value in worker.items():
            if name in names:
                setattr(out, name, value)
    if workers and out.weights_gib is None:
        out.weights_gib = next((w["profiled_weights_gib"] for w in workers if "profiled_weights_gib" in w), None)
    figures = [name for worker in workers for name in worker]
    out.num_workers = max((figures.count(name) for name in set(figures)), default=0)
    out.worker_kv_gib = [worker["kv_cache_gib"] for worker in workers if "kv_cache_gib" in worker]


def _take_pool(out: Findings, start: Start) -> None:
    pools = [pool for pools in start.pools.values() for pool in pools]
    for name in ("kv_cache_tokens", "max_concurrency", "num_blocks"):
        if values := [pool[name] for pool in pools if name in pool]:
            setattr(out, name, min(values))
    if lengths := [pool["max_model_len"] for pool in pools if "max_model_len" in pool]:
        out.max_model_len = lengths[-1]
    by_rank = {rank: [p["kv_cache_tokens"] for p in some if "kv_cache_tokens" in p]
               for rank, some in start.pools.items()}  # fmt: skip
    out.engines = [rank for rank, tokens in by_rank.items() if tokens and rank]
    out.pools = [min(by_rank[rank]) for rank in out.engines]
    if start.override:
        out.num_blocks, out.profiled_blocks = start.override["num_blocks"], start.override["profiled_blocks"]
        out.profiled_kv_gib, out.kv_cache_gib = out.kv_cache_gib, None


def _take_failure(out: Findings, failure: Failure) -> None:
    detail = failure.detail
    if failure.kind == NO_KV_MEMORY:
        failure.detail = {"available_gib": out.kv_cache_gib} if out.kv_cache_gib is not None else None
        return
    if found := re.search(r"max seq len \((\d+)\)", failure.message):
        out.max_model_len = int(found[1])
    if "fits_tokens" in detail:
        out.kv_cache_tokens = detail["fits_tokens"]
    if failure.kind == OUT_OF_MEMORY and out.total_gib is None:
        out.total_gib = detail["total_gib"]
    if "memory on node" in failure.message:
        out.device = out.device or "CPU"  # of the back ends only that one counts by nodes
    if failure.kind == MEMORY_TAKEN and out.total_gib is None:
        if found := re.search(r"/([\d.]+) GiB\)", failure.message):
            out.total_gib = float(found[1])
    if out.profiled_blocks is not None and "needed_gib" in detail:
        detail["cause"] = "num_gpu_blocks_override"


def _graphs_in_activation(start: Start, version: str | None) -> bool:
    """Does the figure for activations hold the estimate of CUDA graphs? The log says so, or its version does."""
    if "graphs_out" in start.marks:
        return False
    if "graphs_in" in start.marks:
        return True
    numbers = re.match(r"(\d+)\.(\d+)", version or "")
    return bool(numbers) and (int(numbers[1]), int(numbers[2])) >= GIVEN_GRAPHS
