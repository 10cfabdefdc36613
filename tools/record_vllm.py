"""Record the two runs of vLLM that come with the package, in ``pagedlab/trace/recorded/``.

    PYTHONPATH=. .venv-vllm/bin/python tools/record_vllm.py sync
    PYTHONPATH=. .venv-vllm/bin/python tools/record_vllm.py async

One morning of a small chat service, on SmolLM2 in fp32, greedy, on a CPU: five chats under one system prompt, in a pool
of 14 blocks of 32 tokens, so that somebody is preempted; then nobody; then the second turns of three of them:

    A2   sends her chat as it was, and more; but she was the first to be done, and her blocks were handed out
    E2   sends his chat as it was, and more: his blocks are found
    D2   as E2, but her client leaves out how the answer began, as templates of reasoning models leave out what
            the model thought: from there on nothing is found

Every run makes the same events, apart from the date and the seconds of each step.

vLLM schedules asynchronously by default, but never on a CPU. For ``async`` two things of this process are changed (see
``asynchronous_on_cpu``); the header's ``stood_in`` says so. Scheduler, queue of batches and model runner are vLLM's
own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path
from typing import Any

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
os.environ |= {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

FOLDER = Path(__file__).resolve().parent.parent / "pagedlab/trace/recorded"
STOOD_IN = "the CPU platform's refusal of asynchronous scheduling, and the CUDA events and streams that order copies"

SYSTEM = (
    "You are the assistant of a small city library. Answer in two or three plain sentences. Name the floor and the "
    "shelf where a book stands, never invent a title, and if you do not know something, say so and send the visitor "
    "to the desk on the ground floor. The library is open from nine to six, on Saturdays until one."
)
FIRST = {  # who asks what, when (calls of LLMEngine.step before it), and how long the answer is
    "A": ("Where do I find a book about the history of maps?", 0, 40),
    "B": ("Do you have something on how birds find their way in the dark?", 6, 44),
    "C": ("My daughter is eight and wants to know how ships float. What can she read?", 8, 48),
    "D": ("Is there a quiet room where I can work with a laptop until the evening?", 10, 60),
    "E": ("I look for old photographs of the harbour, from before the bridge was built.", 12, 52),
}
SECOND = {
    "A2": ("And is there one with maps of the sea?", 0, 24),
    "E2": ("Are there any of the old fish market?", 3, 24),
    "D2": ("Can I bring a cup of tea?", 26, 24),
}


def prompt(question: str, before: str = "") -> str:
    """SmolLM2's chat template. ``before``: the turn before this one, with its answer."""
    head = before or f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
    return f"{head}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def asynchronous_on_cpu() -> None:
    """Let vLLM schedule asynchronously on a CPU, in this process: its platform would switch that off, and its runner
    orders its copies with CUDA's events and streams, which on a CPU are over when the call returns."""
    import torch
    from vllm.platforms.cpu import CpuPlatform

    check = CpuPlatform.check_and_update_config.__func__

    def check_and_leave(cls: type, vllm_config: Any) -> None:
        chosen = vllm_config.scheduler_config.async_scheduling
        check(cls, vllm_config)
        vllm_config.scheduler_config.async_scheduling = chosen

    class Done:
        """An event or a stream with nothing to wait for."""

        device = torch.device("cpu")

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def record(self, *args: Any) -> None: ...
        def synchronize(self) -> None: ...
        def wait_stream(self, *args: Any) -> None: ...

    CpuPlatform.check_and_update_config = classmethod(check_and_leave)
    torch.cuda.Event = torch.cuda.Stream = Done
    torch.cuda.current_stream = lambda *args: Done()
    torch.cuda.stream = lambda stream: contextlib.nullcontext()


def serve(driver: Any, arrivals: dict[str, tuple[str, int, int]], answers: dict[str, str]) -> None:
    """Serve these prompts to their ends, each from its call on; their answers go into ``answers``."""
    waiting = sorted(arrivals.items(), key=lambda item: item[1][1])
    engine, call = driver.llm.llm_engine, 0
    while waiting or driver.has_unfinished_requests():
        while waiting and waiting[0][1][1] <= call:
            name, (text, _, max_tokens) = waiting.pop(0)
            driver.add_request(text, max_tokens=max_tokens, ignore_eos=True, request_id=name)
        for output in engine.step():
            answers[output.request_id] = output.outputs[0].text
        call += 1
    while engine.engine_core.engine_core.scheduler.has_requests():  # a server's loop goes on, too, until all is told
        engine.step()


def record(mode: str, out: Path) -> None:
    import vllm

    from pagedlab import watch
    from pagedlab.model.export import exported
    from pagedlab.trace import save

    if mode == "async":
        asynchronous_on_cpu()
    llm = vllm.LLM(
        str(exported("smollm2")),
        served_model_name="SmolLM2-135M-Instruct",
        dtype="float32",
        enforce_eager=True,
        max_model_len=384,
        block_size=32,
        num_gpu_blocks_override=14,
        max_num_seqs=8,
        max_num_batched_tokens=256,
        seed=0,
        async_scheduling=mode == "async",
    )
    driver, answers = watch.of(llm), {}
    first = {name: (prompt(question), at, longest) for name, (question, at, longest) in FIRST.items()}
    serve(driver, first, answers)
    second = {}
    for name, (question, at, longest) in SECOND.items():
        who = name.removesuffix("2")
        answer = answers[who] if who != "D" else answers[who].partition(". ")[2]
        second[name] = (prompt(question, f"{prompt(FIRST[who][0])}{answer}<|im_end|>\n"), at, longest)
    serve(driver, second, answers)
    trace = driver.trace
    trace.header["live"] = False
    if mode == "async":
        trace.header["stood_in"] = STOOD_IN
    save(trace, out)
    print(f"{out.name}: {driver.num_steps} steps, {len(trace.events):,} events, {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("sync", "async"))
    parser.add_argument("--out", type=Path, help="default: the file in pagedlab/trace/recorded/")
    chosen = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    record(chosen.mode, chosen.out or FOLDER / f"vllm-{chosen.mode}.jsonl.gz")
