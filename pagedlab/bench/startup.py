"""How long until something happens? Import, first token, doctor: each in a process of its own, from its start to its
end, as a learner waits for it. Beside them, what cannot be less: Python itself, and `import torch`."""

from __future__ import annotations

import json as json_module
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pagedlab.bench.machine import check_writable, keep, machine, machine_line
from pagedlab.errors import PagedlabError

FIRST_TOKEN = """\
from pagedlab import LLM, SamplingParams
LLM({model!r}).generate("The page table", SamplingParams(max_tokens=1))"""

DOCTOR = ["-m", "pagedlab", "doctor"]  # it exits with 1 where the course cannot run: an answer, too

WORDS = {
    "python": "python, nothing else",
    "import_pagedlab": "import pagedlab",
    "import_torch": "import torch",
    "first_token": "cached model to first token",
    "doctor": "pagedlab doctor",
}


def measure(model: str = "smollm2", rounds: int = 3) -> dict[str, Any]:
    """Seconds of every round. The import's time is that of a process that imports, less that of one that does not."""
    if rounds < 1:
        raise PagedlabError(f"rounds is {rounds}; it must be at least 1.")
    from pagedlab.model.weights import load_model

    load_model(model)  # here once: so that it is in the user's cache
    programs = {
        "python": ["-c", "pass"],
        "import_pagedlab": ["-c", "import pagedlab"],
        "import_torch": ["-c", "import torch"],
        "first_token": ["-c", FIRST_TOKEN.format(model=model)],
        "doctor": DOCTOR,
    }
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, arguments in programs.items():
            seconds[name].append(_wait(arguments))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    medians["import_pagedlab"] = max(0.0, medians["import_pagedlab"] - medians["python"])
    return {
        "benchmark": "startup",
        "model": model,
        "rounds": rounds,
        "machine": machine(),
        "seconds": {name: [round(s, 3) for s in values] for name, values in seconds.items()},
        "medians": {name: round(s, 3) for name, s in medians.items()},
        "first_token_over_import_torch": round(medians["first_token"] / medians["import_torch"], 2),
    }


def _wait(arguments: list[str]) -> float:
    started = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], env=os.environ, capture_output=True, text=True)
    if done.returncode and not (arguments is DOCTOR and done.returncode == 1):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        message = last.removeprefix("pagedlab.errors.PagedlabError: ")
        raise PagedlabError(message if message != last else f"A process that was to be timed failed: {last}")
    return time.perf_counter() - started


def run(*, model: str = "smollm2", rounds: int = 3, json: bool = False, out: Path | None = None) -> dict[str, Any]:
    """Measure and print (a table, or one JSON object); keep the raw figures in `out`."""
    check_writable(out)
    result = measure(model, rounds)
    keep(result, out)
    print(json_module.dumps(result) if json else _table(result))
    return result


def _table(result: dict[str, Any]) -> str:
    lines = [f"Start-up, seconds, medians of {result['rounds']}. {machine_line(result['machine'])}."]
    lines += [f"  {words:<32}{result['medians'][name]:>8.2f}" for name, words in WORDS.items()]
    ratio = result["first_token_over_import_torch"]
    return "\n".join([*lines, f"  The first token takes {ratio:.1f} times as long as importing torch alone."])
