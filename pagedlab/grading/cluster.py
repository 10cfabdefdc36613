"""Grades a class on a Dask cluster, one that there is or one of this machine's own processes."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.grading import on_worker
from pagedlab.grading.classroom import Graded, Refused, find
from pagedlab.grading.dispatch import Dispatch, Job, Lost, NoWorker, longest
from pagedlab.grading.grade import Result, needs_unix, when_saved
from pagedlab.grading.kept import Kept, key_of
from pagedlab.grading.notebook import cells_of, exercise_number, read_bytes
from pagedlab.grading.part import load_exercise

SECONDS_TO_CONNECT = 5.0  # the first time
SECONDS_TO_COME_BACK = 120.0  # for a scheduler that was there


def need_dask() -> None:
    """Raises PagedlabError where Dask is not installed."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise PagedlabError(
            f"Grading on a cluster needs Dask's distributed ({error}). Install it: pip install 'pagedlab[cluster]', or "
            "pip install distributed."
        ) from None


def grade_on_cluster(
    paths: Sequence[str | Path],
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    seed: int | None = None,
    keep: Path | None = None,
    ended: Callable[[Graded, str], None] = lambda graded, where: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> list[Graded]:
    """Grade several, in the order of ``paths``, as ``classroom.grade_all`` does.

    ``scheduler``: the address of a cluster's; ``workers``: without one, so many processes of this machine; ``keep``: a
    folder for the grades that there are, from which they are taken the next time; ``ended``: called for each as it
    ends, with its worker's address, "kept", or "". Raises PagedlabError where no cluster can be reached.
    """
    need_dask()
    found = [entry for path in paths for entry in find(Path(path))]
    others = [str(path.absolute()) for _, path in found if isinstance(path, Path)]
    kept, jobs = Kept(keep), []
    graded: dict[int, Graded] = {}

    def end(number: int, outcome: Result | Refused, where: str) -> None:
        graded[number] = Graded(found[number][0], outcome)
        ended(graded[number], where)

    def end_job(job: Job, outcome: Result | Refused, where: str) -> None:
        if isinstance(outcome, Result):
            kept.put(job.key, outcome)
        end(job.number, outcome, where)

    for number, (_, path) in enumerate(found):
        one = path if isinstance(path, Refused) else _job(number, path, seed, others)
        if isinstance(one, Refused):
            end(number, one, "")
        elif result := kept.get(one.key, *one.arguments[1:3]):
            end(number, result, "kept")
        else:
            jobs.append(one)
    if jobs:
        dispatch = Dispatch(jobs, end_job, say)
        why = asyncio.run(_serve(dispatch, scheduler, workers, say))
        if len(dispatch.left) == len(jobs):
            raise PagedlabError(why)
        for job in dispatch.left:
            end(job.number, Refused(job.path, f"{job.path} is not graded: {why}"), "")
    return [graded[number] for number in range(len(found))]


def _job(number: int, path: Path, seed: int | None, others: list[str]) -> Job | Refused:
    try:
        data = read_bytes(path)
        exercise = load_exercise(exercise_number(path, cells_of(path, data)))
    except PagedlabError as error:
        return Refused(str(path), str(error))
    key = key_of(data, exercise.number, seed, on_worker.fingerprint())
    arguments = (data, str(path), when_saved(path), seed, others)
    return Job(number, key, str(path), arguments, longest(len(exercise.parts)))


async def _serve(dispatch: Dispatch, scheduler: str | None, workers: int | None, say: Callable[[str], None]) -> str:
    """Until all has ended, or cannot: why not. A scheduler that went away is waited for."""
    from distributed.utils import silence_logging_cmgr

    with silence_logging_cmgr(logging.CRITICAL):
        async with _address(scheduler, workers) as address:
            seconds = SECONDS_TO_CONNECT
            while True:
                try:
                    async with _connected(address, seconds) as client:
                        await dispatch.serve(client)
                    return ""
                except Lost:
                    seconds = SECONDS_TO_COME_BACK
                    say(f"The scheduler at {address} went away; waiting up to {seconds:.0f} seconds for it.")
                except NoWorker as error:
                    return str(error)
                except PagedlabError as error:
                    if seconds == SECONDS_TO_CONNECT:
                        raise
                    return str(error)


@asynccontextmanager
async def _address(scheduler: str | None, workers: int | None) -> AsyncIterator[str]:
    """Of the scheduler: the one that there is, or one here, with its workers, until the end."""
    if scheduler is not None:
        yield scheduler
        return
    from distributed import LocalCluster

    needs_unix()
    # No limit on a worker's memory: it holds notebooks only. Each submission has its own.
    cluster = LocalCluster(
        n_workers=workers, processes=True, threads_per_worker=1, memory_limit=0, host="127.0.0.1",
        dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL, preload=on_worker.__name__, asynchronous=True,
    )  # fmt: skip
    try:
        # While they start, workers hear of no Ctrl-C (``dask_setup``); this process does as soon as they have. What
        # Python starts beside its first one would let them hear again.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        starting = asyncio.ensure_future(cluster)
        try:
            await asyncio.shield(starting)
        finally:
            await starting  # after Ctrl-C too: what has half started cannot be closed
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        yield cluster.scheduler_address
    finally:
        await cluster.close()


@asynccontextmanager
async def _connected(address: str, seconds: float) -> AsyncIterator[Any]:
    """A client. Raises PagedlabError where nobody answers at ``address`` within ``seconds``."""
    from distributed import Client

    client = Client(address, asynchronous=True, timeout=seconds, set_as_default=False, name="pagedlab-grade")
    try:
        try:
            await client
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            what = (str(error) or type(error).__name__).splitlines()[0]
            raise PagedlabError(
                f"No Dask scheduler answers at {address!r} ({what}). Give the address that it printed when it started, "
                "such as tcp://HOST:8786."
            ) from None
        yield client
    finally:
        await client.close(SECONDS_TO_CONNECT)
