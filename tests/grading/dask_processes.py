"""Schedulers and workers of Dask as processes of their own, as on a real cluster, and what becomes of them."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class DaskProcesses:
    """A scheduler and workers; each worker a process that grades one at a time. ``stop`` ends what is left of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.workers: list[subprocess.Popen] = []
        self.scheduler: subprocess.Popen | None = None

    def start(self, num_workers: int = 0, *arguments: str) -> "DaskProcesses":
        command = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", f"{self.port}", "--no-dashboard"]
        self.scheduler = self._process([*command, *arguments], {})
        end = time.monotonic() + 60
        while not self._listens() and time.monotonic() < end:
            time.sleep(0.1)
        for _ in range(num_workers):
            self.add_worker()
        return self

    def add_worker(self, *arguments: str, **settings: str) -> subprocess.Popen:
        command = ["distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
        self.workers.append(self._process([*command, *arguments], settings))
        return self.workers[-1]

    def kill(self, process: subprocess.Popen, number: int = signal.SIGKILL) -> None:
        process.send_signal(number)
        process.wait()

    def restart(self) -> None:
        """Scheduler and workers, as whatever supervises them would: a worker ends when its scheduler has gone."""
        num_workers = sum(worker.poll() is None for worker in self.workers)
        self.kill(self.scheduler)
        self.start(num_workers)

    def stop(self) -> None:
        for process in [*self.workers, self.scheduler]:
            if process and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                self.kill(process)

    def _listens(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def _process(self, command: list[str], settings: dict[str, str]) -> subprocess.Popen:
        with (self.folder / f"log-{time.monotonic_ns()}.txt").open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *command], cwd=self.folder, env=os.environ | settings, stdout=log, stderr=log
            )
