"""Gives submissions to the workers of a Dask cluster, one for each of their threads, and sees what becomes of them.

Each submission is meant for one worker, and given out only when that one is free. So when a worker is lost it is
known which submissions it was grading, and no other one is blamed; Dask's own count (``allowed-failures``) would
blame whatever waited there.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pagedlab.grading import on_worker
from pagedlab.grading.classroom import Refused
from pagedlab.grading.grade import Result
from pagedlab.grading.judge import SECONDS_FOR_ALL_CASES, SECONDS_FOR_ALL_CELLS
from pagedlab.grading.kept import result_of
from pagedlab.grading.nbval_run import LIMITS

MOST_KILLS = 3  # workers that are lost while they grade one submission
SECONDS_TO_ANSWER = 30.0  # for a scheduler, and for what a worker does at once
PATIENCE = 300.0  # seconds without any worker
POLL = 0.5


class Lost(Exception):
    """The scheduler is gone."""


class NoWorker(Exception):
    """There is no worker that can grade; says why."""


@dataclass(eq=False)
class Job:
    """A submission to be graded. ``arguments``: of ``on_worker.grade_bytes``; ``seconds``: no grade takes longer."""

    number: int
    key: str
    path: str
    arguments: tuple[Any, ...]
    seconds: float
    kills: int = 0
    tries: int = 0


@dataclass(eq=False)
class _Running:
    job: Job
    worker: str
    future: Any
    until: float
    result: asyncio.Task = field(init=False)

    def __post_init__(self) -> None:
        self.result = asyncio.ensure_future(_outcome(self.future))


def longest(num_parts: int) -> float:
    """Seconds that the limits on a submission of so many parts allow in all, with some for starting processes."""
    return SECONDS_FOR_ALL_CELLS + SECONDS_FOR_ALL_CASES * num_parts + LIMITS.seconds + 120 * (num_parts + 1)


class Dispatch:
    """``jobs`` until each has ended: ``ended(job, outcome, worker)``. ``say``: a sentence for the person who waits."""

    def __init__(
        self, jobs: list[Job], ended: Callable[[Job, Result | Refused, str], None], say: Callable[[str], None]
    ) -> None:
        self.waiting, self.running = deque(jobs), list[_Running]()
        self.ended, self.say = ended, say

    @property
    def left(self) -> list[Job]:
        return [*(one.job for one in self.running), *self.waiting]

    async def serve(self, client: Any) -> None:
        """Raises Lost where the scheduler went away, NoWorker where nobody can grade; what has not ended is left."""
        self._checks: dict[str, asyncio.Task] = {}
        self._hung: set[str] = set()
        self._scheduler = ""
        self._seen = asyncio.get_running_loop().time()
        try:
            while self.left:
                threads = await self._workers(client)
                self._take_back(set(threads))
                self._give_out(client, threads)
                waits = [one.result for one in self.running] + [c for c in self._checks.values() if not c.done()]
                if waits:
                    await asyncio.wait(waits, timeout=POLL, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(POLL)
                self._collect()
        finally:
            for check in self._checks.values():
                check.cancel()
            while self.running:  # nobody is to blame
                self._again(self.running[-1])

    async def _workers(self, client: Any) -> dict[str, int]:
        """Address -> threads, of the workers that are there and can grade."""
        try:
            identity = await asyncio.wait_for(client.scheduler.identity(), SECONDS_TO_ANSWER)
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and asyncio.current_task().cancelling():
                raise
            raise Lost from None
        self._scheduler = self._scheduler or identity["id"]
        if identity["id"] != self._scheduler:  # another one at its address, which knows nothing of what was given out
            raise Lost
        there = identity["workers"]
        for address in there.keys() - self._checks.keys():
            self._checks[address] = asyncio.ensure_future(self._check(client, address, there[address]["name"]))
        for address in self._checks.keys() - there.keys():
            self._checks.pop(address).cancel()
            self._hung.discard(address)
        bad = {one: check.result() for one, check in self._checks.items() if check.done() and check.result()}
        if there and len(bad) == len(there):
            raise NoWorker(next(iter(bad.values())))
        now = asyncio.get_running_loop().time()
        good = [one for one in there if one not in bad and one not in self._hung]
        if good:
            self._seen = now
        elif now - self._seen > PATIENCE and not self.running:
            raise NoWorker(f"There was no worker that could grade for {PATIENCE:.0f} seconds.")
        able = [one for one in good if self._checks[one].done() and there[one]["status"] == "running"]
        return {one: there[one]["nthreads"] if one in able else 0 for one in there if one not in bad}

    async def _check(self, client: Any, address: str, name: Any) -> str:
        """Why a worker cannot grade, in a sentence; "" where it can."""
        here = on_worker.fingerprint()
        future = client.submit(*_call("fingerprint"), workers=[address], pure=False)
        try:
            there = await asyncio.wait_for(_outcome(future), SECONDS_TO_ANSWER)
            wrong = "" if there == here else f"it has pagedlab {there}, and here is {here}"
            if isinstance(there, Exception):
                wrong = f"pagedlab cannot be imported there ({type(there).__name__}: {there})"
        except TimeoutError:
            wrong = f"it did not answer within {SECONDS_TO_ANSWER:.0f} seconds"
        if wrong:
            who = address if name in (None, address) else f"{address} ({name})"
            wrong = f"The worker {who} is left out: {wrong}. Install there the pagedlab that you have here."
            self.say(wrong)
        return wrong

    def _give_out(self, client: Any, threads: dict[str, int]) -> None:
        now = asyncio.get_running_loop().time()
        for address, most in threads.items():
            if address in self._hung:
                continue
            while self.waiting and sum(one.worker == address for one in self.running) < most:
                job = self.waiting.popleft()
                job.tries += 1
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # of a large notebook
                    future = client.submit(
                        *_call("grade_bytes", *job.arguments), pure=False, retries=0,
                        key=f"pagedlab-{job.key[:12]}-{job.number}-{job.tries}-{client.id}",
                        workers=[address], allow_other_workers=False,
                    )  # fmt: skip
                self.running.append(_Running(job, address, future, now + job.seconds))

    def _take_back(self, there: set[str]) -> None:
        """From workers that are gone, or have hung for longer than any grade takes."""
        now = asyncio.get_running_loop().time()
        for one in [one for one in self.running if not one.result.done()]:
            if one.worker not in there:
                self._blame(one, "was lost")
            elif now > one.until:
                self._hung.add(one.worker)
                self._blame(one, f"gave no answer for {one.job.seconds:.0f} seconds")

    def _blame(self, one: _Running, what: str, kills: int = 1) -> None:
        job = one.job
        job.kills += kills
        if job.kills < MOST_KILLS:
            self.say(f"{job.path} is graded again: its worker {one.worker} {what}.")
            self._again(one)
            return
        self._drop(one)
        reason = f"{job.path} gets no grade: {job.kills} workers in turn were lost, or failed, while they graded it."
        self.ended(job, Refused(job.path, reason), one.worker)

    def _again(self, one: _Running) -> None:
        self._drop(one)
        self.waiting.append(one.job) if one.job.kills else self.waiting.appendleft(one.job)

    def _drop(self, one: _Running) -> None:
        self.running.remove(one)
        one.result.cancel()
        one.future.release()

    def _collect(self) -> None:
        for one in [one for one in self.running if one.result.done()]:
            got = one.result.result()
            if isinstance(got, Exception) and hasattr(got, "allowed_failures"):  # KilledWorker: it came back in between
                self._blame(one, "was lost", got.allowed_failures + 1)
            elif got is None:  # cancelled: by somebody else, or with its scheduler
                self._again(one)
            elif isinstance(got, Exception):
                self._blame(one, f"could not begin ({type(got).__name__})")
            else:
                self._drop(one)
                refused = "reason" in got
                self.ended(one.job, Refused(**got) if refused else result_of(got), one.worker)


def _call(name: str, *arguments: Any) -> tuple[Any, ...]:
    """What Dask is to call: a function of ``on_worker``, by its name. By reference a worker without pagedlab could not
    read its task, and would end; and so could a scheduler, which needs no pagedlab this way. By value it would have to
    be the same Python."""
    there = f"__import__('importlib').import_module({on_worker.__name__!r}).{name}(*arguments)"
    return eval, there, {"arguments": arguments}


async def _outcome(future: Any) -> Any:
    """What a task gave, the exception that it ended with, or None where it was cancelled."""
    try:
        return await future
    except asyncio.CancelledError:
        if asyncio.current_task().cancelling():
            raise
        return None
    except Exception as error:
        from concurrent.futures import CancelledError

        return None if isinstance(error, CancelledError) else error
