"""vLLM as the other side of `pagedlab bench engine`: eager and compiled, each in a process that is kept, so that rounds
alternate with ours and its start, with what it compiles, is in nobody's round."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

import pagedlab
from pagedlab.bench.vllm_engine import QUIET, weights
from pagedlab.bench.workloads import Workload
from pagedlab.errors import PagedlabError
from pagedlab.model.config import LlamaConfig

ENVIRONMENT = Path(pagedlab.__file__).parents[1] / ".venv-vllm"
KINDS = ("eager", "compiled")


def vllm_python() -> Path:
    """The Python that has vLLM. Raises PagedlabError where there is none."""
    if importlib.util.find_spec("vllm"):
        return Path(sys.executable)
    python = ENVIRONMENT / "bin" / "python"
    if not python.is_file():
        raise PagedlabError(
            "vLLM has an environment of its own, .venv-vllm, which is not here: run `make vllm`, then this again."
        )
    return python


class VLLM:
    """One vLLM in a process of its own; to be closed. ``run(prompts, new)`` gives the new tokens of each prompt, and
    ``about`` what it runs with: version, threads, seconds until it was ready.

    Its engine is in that one process, and has as many threads as ``torch`` has here. What it compiles, it compiles anew
    each time: an old result in a cache would make its start look quick. Raises PagedlabError where it does not start.
    """

    def __init__(self, python: Path, folder: Path, kind: str, workloads: list[Workload], config: LlamaConfig) -> None:
        self.kind, threads = kind, torch.get_num_threads()
        with contextlib.ExitStack() as stack:
            cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="pagedlab-vllm-"))
            self._log = stack.enter_context(tempfile.TemporaryFile("w+"))
            environment = QUIET | {
                "OMP_NUM_THREADS": str(threads),
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "VLLM_CACHE_ROOT": cache,
                "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
            }
            self._process = subprocess.Popen(
                [python, "-m", "pagedlab.bench.vllm_child"], env=os.environ | environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            )  # fmt: skip
            stack.callback(self._end)
            self.about = self._ask(
                {
                    "folder": str(folder.resolve()),
                    "enforce_eager": kind == "eager",
                    "max_model_len": max(workload.longest for workload in workloads),
                    "gib": max(gib_needed(workload, config) for workload in workloads),
                }
            )
            if self.about["threads"] != threads:
                raise PagedlabError(
                    f"vLLM ({kind}) runs with {self.about['threads']} threads and ours with {threads}; they cannot "
                    "be compared. Set OMP_NUM_THREADS to a number of threads that both take."
                )
            self.close = stack.pop_all().close

    def run(self, prompts: list[list[int]], new: int) -> list[list[int]]:
        """The ``new`` greedy tokens of each prompt. Raises PagedlabError where the process has ended."""
        return self._ask({"prompts": prompts, "new": new})["token_ids"]

    def _ask(self, what: dict[str, Any]) -> dict[str, Any]:
        line = ""
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(what), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            lines = [text.strip() for text in self._log if text.strip()]
            raise PagedlabError(f"vLLM ({self.kind}) ended: {lines[-1] if lines else 'it said nothing'}")
        answer = json.loads(line)
        if "error" in answer:
            raise PagedlabError(answer["error"])
        return answer

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()


def start(model: str, workloads: list[Workload], config: LlamaConfig, stack: contextlib.ExitStack) -> dict[str, VLLM]:
    """Both kinds, one after the other; ``stack`` ends them."""
    python, folder, found = vllm_python(), weights(model), {}
    for kind in KINDS:
        found[kind] = VLLM(python, folder, kind, workloads, config)
        stack.callback(found[kind].close)
    return found


def gib_needed(workload: Workload, config: LlamaConfig) -> int:
    """GiB of K and V in fp32 in which all requests fit twice, nothing shared: nobody waits or is preempted."""
    per_token = 2 * config.num_layers * config.num_kv_heads * config.head_size * 4
    return -(-2 * sum(length + workload.new for length in workload.lengths) * per_token // (1 << 30))
