"""What does a kernel look like on a GPU that is not here?

Triton's compiler needs no GPU: told a target, it makes the same binary ("cubin") that a launch on that GPU would make.
Its wheel also brings NVIDIA's `cuobjdump` and `nvdisasm`, which say what is in the binary:

    registers, spills      values that did not fit into registers live in slow "local" memory; there must be none
    shared memory          of one program, which must fit into the SM's
    16-byte loads          the widest load that a thread has, for K and V: `LDG...128`, or asynchronous `LDGSTS...128`
    tensor cores           matrix instructions: HMMA, HGMMA (Hopper), UTC..MMA (Blackwell)

This is the only file that goes beyond Triton's public functions: `ASTSource` (a kernel with the types of its
arguments) and `GPUTarget`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pagedlab.errors import PagedlabError
from pagedlab.kernels import interpreting
from pagedlab.kernels.decode import paged_decode_kernel
from pagedlab.kernels.decode_split import merge_splits_kernel, paged_decode_split_kernel
from pagedlab.kernels.launch import padded, rows_for
from pagedlab.kernels.move_blocks import PIECE, move_blocks_kernel
from pagedlab.kernels.prefill import paged_prefill_kernel
from pagedlab.kernels.tuning import Tuning, decode_tuning, prefill_tuning, shared_memory
from pagedlab.kernels.write_kv import write_kv_kernel

TARGETS = (75, 80, 90, 100, 120)
POINTER_TYPES = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16"}
INDEX_TYPES = {
    "block_tables": "*i32",
    "seq_lens": "*i32",
    "query_start_loc": "*i32",
    "slot_mapping": "*i64",
    "watch": "*i64",
    "source_ids": "*i64",
    "destination_ids": "*i64",
}
DATA = ("output", "query", "key", "value", "key_pool", "value_pool", "source", "destination")


@dataclass(frozen=True)
class Configuration:
    """One kernel as it ships. The tile and the other sizes follow from the target, by `tuning.py`."""

    kernel: str
    dtype: torch.dtype
    head_size: int
    group: int = 4
    block_size: int = 16
    watch: int = 0

    @property
    def name(self) -> str:
        return f"{self.kernel} {str(self.dtype).removeprefix('torch.')} {self.head_size}" + (
            " watched" if self.watch else ""
        )


BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32

# What ships: every head size that the course names, each dtype at least once in each kernel. SmolLM2 is head size 64,
# group 3; Llama 3.1 is 128, group 4.
SHIPPED = (
    *(Configuration("decode", FP16, size) for size in (32, 64, 80, 96, 128, 256)),
    Configuration("decode", BF16, 64, group=3),
    Configuration("decode", BF16, 128),
    Configuration("decode", FP32, 64, group=3),
    Configuration("decode", FP32, 128),
    Configuration("split", FP16, 128),
    Configuration("split", BF16, 64, group=3),
    Configuration("split", FP32, 64, group=3),
    Configuration("merge", FP16, 128),
    *(Configuration("prefill", FP16, size) for size in (64, 80, 128, 256)),
    Configuration("prefill", BF16, 64, group=3),
    Configuration("prefill", BF16, 128),
    Configuration("prefill", FP32, 64, group=3),
    Configuration("write", FP16, 128),
    Configuration("move", FP16, 128),
    Configuration("decode", FP16, 128, watch=2),
)


def compile_kernel(kernel, types: dict[str, str], constants: dict, capability: int, warps: int = 4, stages: int = 1):
    """Compile a kernel for a target GPU that need not be here.

    types: argument name -> "*fp16", "i32" ...; constants: all other arguments. Pointers and integers are taken as
    multiples of 16, as at a launch with tensors of the shipped sizes. Returns Triton's compiled kernel, with
    `.asm["ptx"]` (text) and `.asm["cubin"]` (bytes). Raises PagedlabError for an argument with neither type nor value.
    """
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    missing = [name for name, kind in signature.items() if kind == "constexpr" and name not in constants]
    if missing:
        raise PagedlabError(f"compile_kernel: no type and no value for {', '.join(missing)} of {kernel.__name__}.")
    attributes = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(kernel.arg_names)
        if name in types and types[name] not in ("fp32",) and name not in ("num_requests", "pieces")
    }
    source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
    return triton.compile(
        source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps, "num_stages": stages}
    )


def compile_configuration(configuration: Configuration, capability: int):
    """The configuration's kernel for a target, and the Tuning it was compiled with."""
    c = configuration
    kernel, constants, tuning = _kernel_and_constants(c, capability)
    types = {}
    for name in kernel.arg_names:
        if name in DATA:
            types[name] = POINTER_TYPES[c.dtype]
        elif name.startswith("partial_"):
            types[name] = "*fp32"
        elif name in INDEX_TYPES:
            types[name] = INDEX_TYPES[name]
        elif name in ("scale", "soft_cap"):
            types[name] = "fp32"
        elif name not in constants:
            types[name] = "i32"
    if "WATCH" in constants and not c.watch:
        types.pop("watch")
        constants["watch"] = None
    return compile_kernel(kernel, types, constants, capability, tuning.warps, tuning.stages), tuning


def _kernel_and_constants(c: Configuration, capability: int):
    sizes = dict(HEAD_SIZE=c.head_size, HEAD_PADDED=padded(c.head_size))
    attention = dict(BLOCK_SIZE=c.block_size, GROUP=c.group, WINDOW=0, SOFT_CAP=False, UPCAST=False, **sizes)
    if c.kernel in ("decode", "split", "merge"):
        tuning = decode_tuning(capability, c.dtype, c.head_size)
        if c.kernel == "merge":
            return merge_splits_kernel, dict(TILE=tuning.tile, SPLITS=32, SPLITS_PADDED=32, WINDOW=0, **sizes), tuning
        attention |= dict(ROWS=rows_for(c.group, c.dtype, capability), TILE=tuning.tile, PAGED=True, WATCH=c.watch)
        if c.kernel == "split":
            return paged_decode_split_kernel, attention | dict(SPLITS=32), tuning
        return paged_decode_kernel, attention, tuning
    if c.kernel == "prefill":
        rows, tuning = prefill_tuning(capability, c.dtype, c.head_size)
        return paged_prefill_kernel, attention | dict(ROWS=rows, TILE=tuning.tile), tuning
    if c.kernel == "write":
        return write_kv_kernel, dict(BLOCK_SIZE=c.block_size, HEADS_PADDED=8, **sizes), Tuning(1, 4, 1)
    return move_blocks_kernel, dict(PIECE=PIECE), Tuning(PIECE, 4, 1)


def tool(name: str) -> str:
    """The path of one of NVIDIA's programs in Triton's wheel. Raises PagedlabError where it is not there."""
    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name
    if not path.exists():
        raise PagedlabError(f"Triton's wheel has no {name}; install triton from the Python package index (Linux).")
    return str(path)


def read_binary(cubin: bytes) -> dict[str, int]:
    """Figures of a cubin: registers, stack and local bytes, counts of the instructions named in this file's head."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = subprocess.run(
            [tool("cuobjdump"), "--dump-resource-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
        code = subprocess.run([tool("nvdisasm"), "-c", file.name], capture_output=True, text=True, check=True).stdout
    figure = {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    return {
        "registers": figure["REG"],
        "stack_bytes": figure["STACK"] + figure["LOCAL"],
        "spill_instructions": len(re.findall(r"\b(?:LDL|STL)\b", code)),
        "loads_16_bytes": len(re.findall(r"\b(?:LDG|LDGSTS)\.[\w.]*\b128\b", code)),
        "loads": len(re.findall(r"\b(?:LDG|LDGSTS)\.", code)),
        "stores_16_bytes": len(re.findall(r"\bSTG\.[\w.]*\b128\b", code)),
        "tensor_core_instructions": len(re.findall(r"\b(?:HMMA|HGMMA|QGMMA|UTC\w*MMA)\b", code)),
    }


def examine(configuration: Configuration, capability: int) -> dict:
    """Compile one configuration for one target and read its binary; a row of the table, JSON-ready."""
    row = {
        "configuration": configuration.name,
        "kernel": configuration.kernel,
        "sm": capability,
        "dtype": str(configuration.dtype).removeprefix("torch."),
        "head_size": configuration.head_size,
    }
    if configuration.dtype == BF16 and capability < 80:
        return row | {"refused": f"sm_{capability} has no bfloat16 arithmetic"}
    compiled, tuning = compile_configuration(configuration, capability)
    ptx = compiled.asm["ptx"]
    row |= asdict(tuning)
    row |= read_binary(compiled.asm["cubin"])
    return row | {
        "shared_bytes": compiled.metadata.shared,
        "shared_limit": shared_memory(capability),
        "ptx_smid": ptx.count("%smid"),
        "ptx_globaltimer": ptx.count("%globaltimer"),
        "ptx_global_stores": len(re.findall(r"\bst\.global", ptx)),
    }


def examine_all(configurations=SHIPPED, targets=TARGETS, workers: int | None = None) -> list[dict]:
    """Every configuration for every target. Raises PagedlabError under the interpreter, which compiles nothing."""
    if interpreting():
        raise PagedlabError(
            "Kernels are interpreted here (TRITON_INTERPRET is set); start Python without it to compile them."
        )
    work = [(c, t) for c in configurations for t in targets]
    from tqdm import tqdm

    with ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        rows = pool.map(examine, *zip(*work, strict=True), chunksize=4)
        # On standard error, and only where somebody watches: the rows may be read by a program.
        return list(tqdm(rows, total=len(work), unit="kernel", desc="compile", disable=not sys.stderr.isatty()))


if __name__ == "__main__":
    json.dump(examine_all(), sys.stdout)
