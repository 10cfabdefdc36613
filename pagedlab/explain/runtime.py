"""The periodic lines: who runs, who waits, how full the pool is; and what shows that requests were put back."""

from __future__ import annotations

import re

from pagedlab.explain.findings import Line, Runtime

# V1: "Engine 000: Avg prompt throughput: …, Running: 6 reqs, Waiting: 0 reqs, GPU KV cache usage: 40.7%, …". V0 says
# Pending and Swapped, the usage of both memories, and the hit rate in a line of its own.
PERIODIC = re.compile(
    r"(?:(?P<engine>Engine \d+|\d+ Engines Aggregated): )?Avg prompt throughput: (?P<rest>.+?)"
    r"(?=(?:Engine \d+: )?Avg prompt throughput: |$)"
)
RUNNING, WAITING = re.compile(r"Running: (\d{1,9}) reqs"), re.compile(r"(?:Waiting|Pending): (\d{1,9}) reqs")
SWAPPED, PREEMPTIONS = re.compile(r"Swapped: (\d{1,9}) reqs"), re.compile(r"Preemptions: (\d{1,9})")
USAGE = re.compile(r"(\w+) KV cache usage: (-?\d{1,9}(?:\.\d{1,9})?)%")
HIT = re.compile(r"(?<!External )Prefix cache hit rate: (\d{1,9}(?:\.\d{1,9})?)%")
V0_HIT = re.compile(r"Prefix cache hit rate: GPU: (\d{1,9}(?:\.\d{1,9})?)%, CPU: (\d{1,9}(?:\.\d{1,9})?)%")
V0_PREEMPTED = re.compile(
    r"is preempted (?:by|in) PreemptionMode\.\w+ mode.{1,400}?total_num_cumulative_preemption=(\d{1,9})")

FULL_PCT = 80.0  # below it a pool has room, and a falling "Running" has other reasons
MOST_USAGES, MOST_SIGNS = 1000, 3  # kept of a log that may have millions of lines


class Watch:
    """Folds the periodic lines of one start into a :class:`Runtime`."""

    def __init__(self) -> None:
        self.runtime = Runtime()
        self._last: dict[str, Line] = {}
        self._is_cpu = False

    def see(self, text: str, process: str) -> bool:
        """Take in what ``text`` says. Returns whether it said anything."""
        seen = False
        for found in PERIODIC.finditer(text):
            if line := self._line(found["engine"] or process, found["rest"]):
                self._add(line)
                seen = True
        for found in V0_HIT.finditer(text):
            self.runtime.last_prefix_hit_pct = float(found[2 if self._is_cpu else 1])
            seen = True
        for found in V0_PREEMPTED.finditer(text):
            run = self.runtime
            run.preemptions_printed = max(run.preemptions_printed or 0, int(found[1]))
            run.preempted = seen = True
        return seen

    def _line(self, engine: str, rest: str) -> Line | None:
        running, waiting = RUNNING.search(rest), WAITING.search(rest)
        if not running or not waiting:
            return None
        usages = {device: float(percent) for device, percent in USAGE.findall(rest)}
        if usages.get("GPU") == 0 and usages.get("CPU", 0) > 0:
            self._is_cpu = True  # V0 on a CPU; swapping fills both
        usage = next(iter(usages.values()), None) if not self._is_cpu else usages.get("CPU")
        swapped, preemptions, hit = SWAPPED.search(rest), PREEMPTIONS.search(rest), HIT.search(rest)
        return Line(
            engine, int(running[1]), int(waiting[1]), usage, float(hit[1]) if hit else None,
            int(swapped[1]) if swapped else 0, int(preemptions[1]) if preemptions else None)  # fmt: skip

    def _add(self, line: Line) -> None:
        run = self.runtime
        run.lines += 1
        run.engines.add(line.engine)
        run.max_running = max(run.max_running or 0, line.running)
        run.max_waiting = max(run.max_waiting or 0, line.waiting)
        if line.usage_pct is not None:
            run.peak_kv_usage_pct = max(run.peak_kv_usage_pct or 0.0, line.usage_pct)
            if len(run.usages) < MOST_USAGES:
                run.usages.append(line.usage_pct)
        if line.hit_pct is not None:
            run.last_prefix_hit_pct = line.hit_pct
        if line.preemptions is not None:
            run.preemptions_printed = (run.preemptions_printed or 0) + line.preemptions
        before = self._last.get(line.engine)
        self._last[line.engine] = line
        sign = _put_back(before, line) if before else ""
        if line.swapped and not (before and before.swapped):
            sign = f"{line.swapped} swapped out to the CPU's memory"
        if sign:
            run.num_signs += 1
            run.signs = [*run.signs, sign][:MOST_SIGNS]
        run.preempted = run.preempted or bool(sign or line.preemptions)


def _put_back(before: Line, now: Line) -> str:
    """Words for what two lines of an engine show of requests that went from running back to waiting, or ""."""
    fullest = max(before.usage_pct or 0.0, now.usage_pct or 0.0)
    if now.running >= before.running or now.waiting <= before.waiting or fullest < FULL_PCT:
        return ""
    return (f"running {before.running} to {now.running} while waiting {before.waiting} to {now.waiting}, "
            f"the pool {fullest} % full")  # fmt: skip
