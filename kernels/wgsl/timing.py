"""How long does a GPU take for its kernels? Its own clock says so, where the adapter has one that can be read.

That is WebGPU's feature "timestamp-query": a pass of kernels writes down when it began and when it ended. Without it
there is only our clock, which sees Python, driver and GPU together: so the same work is handed over once and twice, and
the difference is what the GPU took for it.

Source: the WebGPU specification (W3C), "timestamp-query".
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from pagedlab.kernels.wgsl.gpu import GPU, Dispatch, encode, library

FEATURE = "timestamp-query"
MOST_PASSES = 2048  # of which a set of queries holds begin and end
A_TIMING = 0.02  # seconds of work for each figure that is taken: long for a clock, short for a driver's patience
ROUNDS = 5  # the median counts


class Timer:
    """Times what runs on ``gpu``: by timestamps where it has them, else by the wall clock."""

    def __init__(self, gpu: GPU) -> None:
        self.gpu, self._something = gpu, gpu.buffer(16, "Something to wait for")
        self.has_timestamps = FEATURE in gpu.device.features

    @property
    def how(self) -> str:
        return "timestamps" if self.has_timestamps else "wall clock"

    def seconds(self, dispatches: Sequence[Dispatch]) -> float:
        """Of running these once, one after the other: the median of some runs of about 20 ms each."""
        once = [self._passes([dispatches])[0] for _ in range(2)][1]  # the first run is a warm-up
        again = max(1, min(256 // len(dispatches), int(A_TIMING / max(once, 1e-6))))
        if once > 10 * A_TIMING:
            return once
        rounds = ROUNDS if self.has_timestamps else 1  # the wall clock takes a median already
        return statistics.median(self._passes([[*dispatches] * again] * rounds)) / again

    def by_part(self, dispatches: Sequence[tuple[str, Dispatch]]) -> dict[str, float]:
        """Seconds of each part of a run of ``dispatches``, each with the name of its part.

        By timestamps: neighbours of one part are a pass, and a part's passes are added up. By the wall clock: the run
        with the part, less the run without it.
        """
        parts = list(dict.fromkeys(part for part, _ in dispatches))
        if not self.has_timestamps:
            whole = self.seconds([one for _, one in dispatches])
            without = {p: [one for part, one in dispatches if part != p] for p in parts}
            return {p: max(0.0, whole - (self.seconds(rest) if rest else 0.0)) for p, rest in without.items()}
        runs = [(part, [one for _, one in run]) for part, run in groupby(dispatches, key=lambda named: named[0])]
        rounds = []
        while len(rounds) < 1 + ROUNDS and (len(rounds) < 2 or sum(rounds[-1].values()) < 10 * A_TIMING):
            taken = self._passes([run for _, run in runs])
            rounds.append({p: sum(s for (part, _), s in zip(runs, taken, strict=True) if part == p) for p in parts})
        return {p: statistics.median(found[p] for found in rounds[1:]) for p in parts}

    def wall_clock(self, hand_over: Any) -> float:
        """Seconds of what ``hand_over(encoder)`` encodes, by the wall clock: twice the work less once."""
        self._wait(hand_over, 1)
        return max(1e-9, statistics.median(self._wait(hand_over, 2) - self._wait(hand_over, 1) for _ in range(3)))

    def _wait(self, hand_over: Any, times: int) -> float:
        encoder = self.gpu.device.create_command_encoder()
        for _ in range(times):
            hand_over(encoder)
        start = time.perf_counter()
        self.gpu.queue.submit([encoder.finish()])
        self.gpu.read(self._something, 16)
        return time.perf_counter() - start

    def _passes(self, groups: Sequence[Sequence[Dispatch]]) -> list[float]:
        """Seconds of each of these."""
        if not self.has_timestamps:
            return [self.wall_clock(lambda encoder, group=group: encode(encoder, group)) for group in groups]
        found = []
        for first in range(0, len(groups), MOST_PASSES):
            found += self._stamped(groups[first : first + MOST_PASSES])
        return found

    def _stamped(self, groups: Sequence[Sequence[Dispatch]]) -> list[float]:
        gpu, use = self.gpu, library().BufferUsage
        queries = gpu.device.create_query_set(type="timestamp", count=2 * len(groups))
        stamps = gpu.device.create_buffer(size=16 * len(groups), usage=use.QUERY_RESOLVE | use.COPY_SRC)
        encoder = gpu.device.create_command_encoder()
        for i, group in enumerate(groups):
            encode(encoder, group, {
                "query_set": queries, "beginning_of_pass_write_index": 2 * i, "end_of_pass_write_index": 2 * i + 1,
            })  # fmt: skip
        encoder.resolve_query_set(queries, 0, 2 * len(groups), stamps, 0)
        gpu.queue.submit([encoder.finish()])
        ticks = np.frombuffer(gpu.read(stamps, stamps.size), np.uint64).reshape(-1, 2).astype(np.int64)
        return (np.maximum(1, ticks[:, 1] - ticks[:, 0]) * self._nanoseconds_a_tick() * 1e-9).tolist()

    def _nanoseconds_a_tick(self) -> float:
        """By the standard it is 1; wgpu's native library gives the GPU's own ticks, and says how long one is."""
        try:
            from wgpu.backends.wgpu_native import lib
        except ImportError:  # in a browser
            return 1.0
        return lib.wgpuQueueGetTimestampPeriod(self.gpu.queue._internal)
