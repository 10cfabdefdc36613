"""Logs of starts that never were, in vLLM 0.32.0's own words, with figures that agree with each other.

The words and their order are those of the logs in ``tests/explain/logs/``; what is made up is the numbers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from pagedlab.explain.shipped import shipped_log

KIB, GIB = 1 << 10, 1 << 30
# (the card's GiB as CUDA sees them, weights in GiB, KiB of K and V for a token)
CARDS = ((79.25, 15.0, 128), (39.5, 14.96, 128), (23.58, 6.43, 36), (139.8, 61.2, 192), (47.38, 14.99, 56))


@dataclass(frozen=True)
class Start:
    """A start of vLLM on one GPU. Sizes are in GiB; ``block_size`` None: not given, so 16."""

    total: float = 79.25
    free: float = 78.84
    utilization: float = 0.92
    weights: float = 15.0
    non_torch: float = 0.26
    activation: float = 1.44
    graphs: float = 0.23
    kib_a_token: int = 128
    block_size: int | None = None
    max_model_len: int = 8192
    max_num_seqs: int = 256

    @property
    def size(self) -> int:
        return self.block_size or 16

    @property
    def budget(self) -> float:
        return round(self.total * self.utilization, 2)

    @property
    def consumed(self) -> float:
        return round(self.weights + self.non_torch, 2)

    @property
    def pool(self) -> float:
        """Below 0 where nothing is left."""
        return round(self.budget - self.consumed - self.activation, 2)

    @property
    def blocks(self) -> int:
        return int(self.pool * GIB // (self.size * self.kib_a_token * KIB))

    @property
    def tokens(self) -> int:
        return self.blocks * self.size

    @property
    def asks_for_too_much(self) -> bool:
        return self.budget > self.free

    @property
    def fits(self) -> bool:
        return not self.asks_for_too_much and self.pool > 0 and self.tokens >= self.max_model_len


def drawn(rng: random.Random, **changes: object) -> Start:
    """A start that succeeds."""
    while True:
        total, weights, kib = rng.choice(CARDS)
        start = Start(
            total=total, free=round(total - rng.uniform(0.3, 3.0), 2), utilization=rng.randint(70, 95) / 100,
            weights=weights, non_torch=round(rng.uniform(0.1, 0.9), 2), activation=round(rng.uniform(0.4, 4.0), 2),
            graphs=round(rng.uniform(0.1, 0.9), 2), kib_a_token=kib, block_size=rng.choice((None, None, 16, 32, 64)),
            max_model_len=1024 * rng.randint(1, 16), max_num_seqs=rng.choice((4, 16, 64, 256, 1024)),
        )  # fmt: skip
        start = replace(start, **changes)
        if start.fits:
            return start


class Log:
    """Lines with vLLM's prefixes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str, where: str, process: str = "EngineCore pid=102", level: str = "INFO") -> None:
        seconds = len(self.lines)
        self.lines.append(f"({process}) {level} 01-02 03:{4 + seconds // 60:02}:{seconds % 60:02} [{where}] {text}")

    def arguments(self, start: Start) -> None:
        given: dict[str, object] = {"model": "a-model", "max_model_len": start.max_model_len}
        if start.block_size:
            given["block_size"] = start.block_size
        given |= {"gpu_memory_utilization": start.utilization, "max_num_seqs": start.max_num_seqs}
        self.say(f"non-default args: {given}", "api_utils.py:286", "APIServer pid=101")
        self.say(f"Using max model len {start.max_model_len}", "model.py:2152", "APIServer pid=101")
        self.say(
            "Initializing a V1 LLM engine (v0.32.0) with config: model='a-model', speculative_config=None, "
            f"dtype=torch.bfloat16, max_seq_len={start.max_model_len}, tensor_parallel_size=1, device_config=cuda",
            "core.py:133",
        )

    def loaded(self, start: Start) -> None:
        self.say(f"Model loading took {start.weights} GiB memory and 5.420225 seconds", "model_runner.py:407")
        self.say(f"Available KV cache memory: {start.pool} GiB", "gpu_worker.py:692")

    def pool(self, start: Start) -> None:
        many = start.tokens / start.max_model_len
        self.say(
            f"GPU KV cache size: {start.tokens:,} tokens, Maximum concurrency for {start.max_model_len:,} tokens per "
            f"request: {many:.2f}x",
            "kv_cache_utils.py:2327",
        )

    def ready(self, start: Start) -> None:
        more = int((start.free - start.consumed - start.activation) * GIB)
        self.say(
            f"Free memory on device ({start.free}/{start.total} GiB) on startup. Desired GPU memory utilization is "
            f"({start.utilization}, {start.budget} GiB). Actual usage is {start.consumed} GiB for consumed memory "
            f"(weights + non-torch), {start.activation} GiB for peak activation, and {start.graphs} GiB for CUDAGraph "
            f"memory. Replace gpu_memory_utilization config with `--kv-cache-memory={int(start.pool * GIB)}` "
            f"({start.pool} GiB) to fit into requested memory, or `--kv-cache-memory={more}` to fully utilize gpu "
            "memory.",
            "gpu_worker.py:955",
        )
        self.say("init engine (profile, create kv cache, warmup model) took 21.12 s", "core.py:402")

    def serving(self, start: Start, rng: random.Random, lines: int = 2) -> None:
        for _ in range(lines):
            running, usage, hits = rng.randint(1, start.max_num_seqs), rng.uniform(3, 99), rng.uniform(0, 90)
            self.say(
                f"Engine 000: Avg prompt throughput: {rng.uniform(9, 999):.1f} tokens/s, Avg generation throughput: "
                f"{rng.uniform(9, 999):.1f} tokens/s, Running: {running} reqs, Waiting: {rng.randint(0, 9)} reqs, "
                f"GPU KV cache usage: {usage:.1f}%, Prefix cache hit rate: {hits:.1f}%",
                "loggers.py:335",
                "APIServer pid=101",
            )

    def started(self, start: Start, rng: random.Random) -> Log:
        """A whole start that succeeds, and some seconds of serving."""
        self.arguments(start)
        self.loaded(start)
        self.pool(start)
        self.ready(start)
        self.serving(start, rng)
        return self

    def failed(self, error: str) -> None:
        """How the engine ends with this error."""
        self.say("EngineCore failed to start.", "core.py:1205", level="ERROR")
        self.say("Traceback (most recent call last):", "core.py:1205", level="ERROR")
        self.say(error, "core.py:1205", level="ERROR")
        self.lines += ["RuntimeError: Engine core initialization failed. See root cause above."]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def real(name: str) -> str:
    """A log that comes with the package, without what is said about it in its first lines."""
    lines = shipped_log(name).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("# "))


def last_start(log: str) -> str:
    """Of several starts in one log the last one."""
    before, mark, rest = log.rpartition("non-default args: ")
    return mark + rest if mark else log


def line_with(log: str, words: str) -> str:
    """The last line of the last start with these words, from them on and shortened, to be shown."""
    found = [line[line.index(words) :] for line in last_start(log).splitlines() if words in line]
    return (found or ["(no such line)"])[-1][:260]
