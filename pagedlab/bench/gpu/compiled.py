"""What are the kernels compiled to, for five kinds of GPU that need not be here?  All that ship, and the rungs."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import torch

from pagedlab.attention import KVPool
from pagedlab.kernels.compile_only import compiling_for, constants_of, read
from pagedlab.kernels.move_blocks import move_blocks
from pagedlab.kernels.run import decode, prefill
from pagedlab.kernels.rungs import RUNGS
from pagedlab.kernels.watch import new_log
from pagedlab.kernels.write_kv import write_kv

TARGETS = (75, 80, 90, 100, 120)
REQUESTS, WIDTH = 4, 64  # of the batch that is launched: requests, and the width of their block tables


@dataclass(frozen=True)
class Configuration:
    """One kernel as it ships. The tile and the other sizes follow from the target, by `tuning.py`."""

    kernel: str
    dtype: torch.dtype
    head_size: int
    group: int = 4
    kv_heads: int = 8
    block_size: int = 16
    watched: bool = False

    @property
    def name(self) -> str:
        heads = "" if self.kv_heads != 1 else ", 1 KV head"
        return f"{self.kernel} {dtype_name(self.dtype)} {self.head_size}{heads}" + " watched" * self.watched


BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
SMOLLM2 = dict(head_size=64, group=3, kv_heads=3)

# What ships: every head size that the course names, each dtype at least once in each kernel. Llama 3.1 has head size
# 128, 8 KV heads and groups of 4.
SHIPPED = (
    *(Configuration("decode", FP16, size) for size in (32, 64, 80, 96, 128, 256)),
    Configuration("decode", BF16, **SMOLLM2),
    Configuration("decode", BF16, 128),
    Configuration("decode", FP32, **SMOLLM2),
    Configuration("decode", FP32, 128),
    Configuration("split", FP16, 128),
    Configuration("split", BF16, **SMOLLM2),
    Configuration("split", FP32, **SMOLLM2),
    Configuration("merge", FP16, 128),
    *(Configuration("prefill", FP16, size) for size in (64, 80, 128, 256)),
    Configuration("prefill", BF16, **SMOLLM2),
    Configuration("prefill", BF16, 128),
    Configuration("prefill", FP32, **SMOLLM2),
    Configuration("write", FP16, 128),
    Configuration("move", FP16, 128),
    Configuration("decode", FP16, 128, watched=True),
)
# Multiples of 8 and not of 16: with one KV head a token's stride is none of 16 either.
EIGHTS = (
    Configuration("decode", FP16, 72),
    Configuration("write", FP16, 72),
    *(Configuration(kernel, FP16, 72, kv_heads=1) for kernel in ("decode", "split", "prefill")),
    *(Configuration("decode", FP16, size, kv_heads=1) for size in (104, 120)),
)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def batch(c: Configuration) -> tuple:
    """Arguments of a decode call, without memory: query, layer, tables, lengths, starts."""
    layer = KVPool(1, REQUESTS * WIDTH, c.block_size, c.kv_heads, c.head_size, c.dtype, "meta").layer(0)
    query = torch.empty(REQUESTS, c.kv_heads * c.group, c.head_size, dtype=c.dtype, device="meta")
    sizes = ((REQUESTS, WIDTH), (REQUESTS,), (REQUESTS + 1,))
    return query, layer, *(torch.empty(size, dtype=torch.int32, device="meta") for size in sizes)


def call(c: Configuration) -> None:
    """Launch the configuration's kernel, as everyone does who needs it."""
    arguments, scale = batch(c), c.head_size**-0.5
    query, layer, tables, *_ = arguments
    ids = torch.empty(REQUESTS, dtype=torch.int64, device="meta")
    if c.kernel == "decode":
        log = new_log(REQUESTS, c.kv_heads, 1, tables.shape[1], query.device) if c.watched else None
        decode(*arguments, scale, splits=1, watch=log)
    elif c.kernel in ("split", "merge"):
        decode(*arguments, scale, splits=32)
    elif c.kernel == "prefill":
        prefill(*arguments, scale)
    elif c.kernel == "write":
        new = query[:, : c.kv_heads]
        write_kv(layer, new, new, ids)
    else:
        pool = KVPool(1, REQUESTS * WIDTH, c.block_size, c.kv_heads, c.head_size, c.dtype, "meta").data
        move_blocks(pool, pool.new_empty(pool.shape), ids, ids)


def examine(configuration: Configuration, capability: int) -> dict:
    """Compile one configuration for one target and read its binary; a row of the table, JSON-ready."""
    c = configuration
    row = {
        "configuration": c.name,
        "kernel": c.kernel,
        "sm": capability,
        "dtype": dtype_name(c.dtype),
        "head_size": c.head_size,
        "kv_heads": c.kv_heads,
        "block_size": c.block_size,
    }
    if c.dtype == BF16 and capability < 80:
        return row | {"refused": f"sm_{capability} has no bfloat16 arithmetic"}
    with compiling_for(capability) as target:
        call(c)
    _, compiled = target.compiled[-1 if c.kernel == "merge" else 0]
    return row | read(compiled, capability)


def examine_rungs(capability: int) -> list[dict]:
    """Each of `rungs.RUNGS` at the shapes that it was made for: instructions of its loop, for 16 tokens of a KV head.

    These are one warp's; all have four a program. Where there is no bfloat16 they are compiled for float16.
    """
    c = Configuration("decode", BF16 if capability >= 80 else FP16, 128)
    rows = []
    for rung in RUNGS:
        with compiling_for(capability) as target:
            rung.run(*batch(c), c.head_size**-0.5)
        grid, compiled = target.compiled[0]
        figures, constants = read(compiled, capability), constants_of(compiled)
        tokens = constants.get("TILE", c.block_size)
        instructions = figures["loop_instructions"] * (grid[0] // c.kv_heads) * 16 / tokens
        rows.append({"rung": rung.name, "sm": capability, **figures, "tile": tokens, "for_16_tokens": instructions})
    return rows


def examine_all(workers: int | None = None) -> dict[str, list[dict]]:
    """Every configuration, and every rung, for every target."""
    work = [(c, t) for c in SHIPPED + EIGHTS for t in TARGETS]
    from tqdm import tqdm

    with ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        rungs = [pool.submit(examine_rungs, capability) for capability in TARGETS]
        rows = pool.map(examine, *zip(*work, strict=True), chunksize=4)
        # On standard error, and only where somebody watches: the rows may be read by a program.
        rows = list(tqdm(rows, total=len(work), unit="kernel", desc="compile", disable=not sys.stderr.isatty()))
        return {"configurations": rows, "rungs": [row for one in rungs for row in one.result()]}


if __name__ == "__main__":
    json.dump(examine_all(), sys.stdout)
