"""What did the decode kernel read, in which order, when, and on which processor of the GPU?

The kernel says so itself, when it is compiled with its flag WATCH. Each program then has one row of 64-bit numbers:

    [0] the SM (streaming multiprocessor) it ran on        [1] nanoseconds at its start        [2] at its end
    [3 + 2 * logical block] the physical block it read there        [4 + 2 * logical block] in which loop iteration

-1 where nothing was written. WATCH = 1 writes blocks and iterations (so does the interpreter), WATCH = 2 the first
three as well: they are machine registers (`%smid`, `%globaltimer`) that only an NVIDIA GPU has. With WATCH = 0 none of
this is in the compiled kernel.
"""

import torch
import triton
import triton.language as tl

from pagedlab.errors import PagedlabError
from pagedlab.trace.events import KernelSpan

HEADER = 3  # numbers before the first block's


@triton.jit
def nanoseconds():
    return tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def watch_start(row):
    sm = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(row, sm.to(tl.int64))
    tl.store(row + 1, nanoseconds())


@triton.jit
def watch_end(row):
    tl.store(row + 2, nanoseconds())


def new_log(requests: int, kv_heads: int, splits: int, max_blocks: int, device) -> torch.Tensor:
    """Room for a watched run, int64 `[requests, KV heads, splits, 3 + 2 * max blocks]`, filled with -1."""
    return torch.full((requests, kv_heads, splits, HEADER + 2 * max_blocks), -1, dtype=torch.int64, device=device)


def check_log(log: torch.Tensor, programs: tuple[int, int, int], max_blocks: int) -> None:
    """Refuse a log that has not a row for each program, and in it room for each block: the kernel would write past."""
    room = (*programs, HEADER + 2 * max_blocks)
    if log.dtype != torch.int64 or not log.is_contiguous() or log.shape[:3] != programs or log.shape[3] < room[3]:
        raise PagedlabError(
            f"The log is {log.dtype} {list(log.shape)}; this launch needs contiguous torch.int64 {list(room)}: make it "
            "with new_log(requests, KV heads, splits, max blocks, device)."
        )


def spans(log: torch.Tensor, source: str = "pagedlab.kernels.decode:paged_decode_kernel") -> list[KernelSpan]:
    """The rows of a log as events, one a program; programs that had nothing to read are left out.

    source: the kernel that ran, `module:name`. Times count from the first program's start.
    """
    log = log.cpu()
    timed = log[..., 0] >= 0
    began = int(log[..., 1][timed].min()) if timed.any() else 0
    result = []
    for request in range(log.shape[0]):
        for kv_head in range(log.shape[1]):
            for split in range(log.shape[2]):
                row = log[request, kv_head, split].tolist()
                pairs = zip(row[HEADER::2], row[HEADER + 1 :: 2], strict=True)
                read = sorted((i, logical, physical) for logical, (physical, i) in enumerate(pairs) if physical >= 0)
                if not read:
                    continue
                iterations, logical_blocks, physical_blocks = zip(*read, strict=True)
                sm, start, end = row[:HEADER]
                clock = dict(sm=sm, start_ns=start - began, end_ns=end - began) if sm >= 0 else {}
                result.append(
                    KernelSpan(
                        source=source,
                        kernel=source.partition(":")[2],
                        request=request,
                        kv_head=kv_head,
                        split=split,
                        iterations=iterations,
                        logical_blocks=logical_blocks,
                        physical_blocks=physical_blocks,
                        **clock,
                    )
                )
    return result
