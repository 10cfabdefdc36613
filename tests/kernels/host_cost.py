"""What a launch costs before the GPU has it: run as a program, it prints what one layer's calls take, as JSON, in
microseconds and in calls of functions (a count that no other work on the machine changes).

There is no GPU, so Triton's driver is one that starts nothing, and tensors are the CPU's. All that Python does up to
the launch is real: what the kernels' functions do, and what Triton does to find the binary. What the real driver and
torch.cuda do is missing.
"""

import json
import sys
import time
from types import SimpleNamespace

import torch
from triton.runtime import driver

from pagedlab.attention import KVPool
from pagedlab.kernels import launch, run
from pagedlab.kernels import write_kv as writing
from pagedlab.kernels.compile_only import Absent


class Starter(Absent):
    """Loads and starts binaries, by doing nothing."""

    utils = SimpleNamespace(
        load_binary=lambda *binary: (1, 1, 100, 0, 1024),
        get_device_properties=lambda device: {"max_shared_mem": 232448},
    )

    @staticmethod
    def launcher_cls(*binary):
        return lambda *arguments: None


def microseconds(function, calls=100, rounds=15) -> float:
    """The best of several rounds: whatever else the machine does makes it longer, never shorter."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append(time.perf_counter() - start)
    return min(times) / calls * 1e6


def functions(function) -> int:
    """How many functions, of Python and of C, it calls."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    function()
    sys.setprofile(None)
    return count


def layer_calls(requests: int, tokens: int, width: int):
    """A layer of Llama 3.1: new K and V are written, then the queries attend."""
    layer = KVPool(1, 256, 16, 8, 128, torch.float16).layer(0)
    heads = torch.zeros(tokens, 48, 128, dtype=torch.float16)
    query, key, value = heads.split_with_sizes((32, 8, 8), 1)
    tables = torch.zeros(requests, width, dtype=torch.int32)
    lengths = torch.full((requests,), 100, dtype=torch.int32)
    starts, slots = torch.arange(requests + 1, dtype=torch.int32), torch.zeros(tokens, dtype=torch.int64)

    def both():
        writing.write_kv(layer, key, value, slots)
        run.attention(query, layer, tables, lengths, starts, 0.1)

    return both


def anew(function):
    launch.forget()
    function()


if __name__ == "__main__":
    driver.set_active(Starter(90))
    launch.check_device = writing.check_device = lambda device: 90
    run.processors = lambda device: 132
    batches = {"decode": (64, 64, 64), "split": (1, 1, 2048), "prefill": (2, 300, 64)}
    found = {}
    with torch.inference_mode():
        for name, sizes in batches.items():
            call = layer_calls(*sizes)
            call()
            for how, one in (("anew", lambda call=call: anew(call)), ("kept", call)):
                found[f"{name}, {how}"] = {"microseconds": microseconds(one), "functions": functions(one)}
    print(json.dumps(found))
