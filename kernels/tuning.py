"""Which sizes, and why these?

Three numbers decide how fast a kernel is once it is right. They come from this table, by compute capability and shape;
nothing is tried out at the first call, which in a notebook would look like a hang and give another answer each day.
`pagedlab gpu-check` measures the neighbours of what is chosen here, so that a wrong reason shows.

* **tile**: tokens of one loop iteration. Larger tiles put more bytes under way at once, but a tile of K and one of V
  take registers and shared memory, and so room for other programs on the same SM (streaming multiprocessor).
* **stages**: how far loads run ahead of arithmetic, by asynchronous copies (sm_80 and newer; one stage before that).
  Our loads come in a chain, first the table, then K and V, so 3 stages keep one tile of K and V under way, and 5 keep
  two.
* **warps**: groups of 32 threads that share the program's work. 4 are enough for tiles of up to 32 KiB; 8 halve the
  registers that a large tile of queries costs each thread.

What "right" means for decode: bytes under way. An H200 brings 4.8 TB/s to 132 SMs, 36 bytes a nanosecond each, and a
byte takes about 0.8 microseconds to arrive, so some 30 KB an SM must be under way all the time, and twice that to be
safe.
"""

from dataclasses import dataclass

import torch

INTERPRETER_TILE = 64

# Shared memory that one program can have, bytes (CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability"); a compute capability that is not here is taken for a small one.
SHARED_MEMORY = {75: 64 << 10, 80: 163 << 10, 86: 99 << 10, 89: 99 << 10, 90: 227 << 10, 100: 227 << 10, 103: 227 << 10}
SMALL_SHARED_MEMORY = 99 << 10  # 86, 89, 120, 121


def shared_memory(capability: int) -> int:
    return SHARED_MEMORY.get(capability, SMALL_SHARED_MEMORY)


@dataclass(frozen=True)
class Tuning:
    tile: int
    warps: int
    stages: int


def decode_tuning(capability: int | None, dtype: torch.dtype, head_size: int) -> Tuning:
    """Sizes for `decode` and `decode_split`."""
    if capability is None:
        return Tuning(INTERPRETER_TILE, 4, 1)
    if capability < 80:
        # No asynchronous copies and (from Triton) no tensor cores: operands sit in registers, so the tile is small.
        return Tuning(32, 4, 1) if head_size <= 64 else Tuning(16, 4 if head_size <= 128 else 8, 1)
    if dtype == torch.float32:
        # Exact fp32 products run without tensor cores, operands in registers.
        return Tuning(32 if head_size <= 128 else 16, 4, 2)
    if head_size <= 64:
        # 64 tokens of K and V are 16 KiB, two of these under way; 93 registers let 5 programs on an SM: 160 KiB.
        return Tuning(64, 4, 5)
    # 32 tokens at head size 128 are 16 KiB, one under way; 107 registers let 4 programs on an SM: 64 KiB. So 64
    # requests of 8 KV heads (512 programs) run all at once on 132 SMs. A tile of 64 has 121 registers and just lets 4,
    # too, with twice the bytes under way; `gpu-check` measures whether that is better.
    return Tuning(32, 4, 3)


def prefill_tuning(capability: int | None, dtype: torch.dtype, head_size: int) -> tuple[int, Tuning]:
    """Rows (pairs of token and query head) of one program, and the other sizes, for `prefill`.

    More rows use each tile of K and V more often, which is what prefill is about; the limit is registers. Where there
    are no tensor cores (fp32, sm_75) a thread holds whole rows of operands, and 16 to 32 rows are all that fits.
    """
    if capability is None:
        return 64, Tuning(INTERPRETER_TILE, 4, 1)
    if capability < 80 or dtype == torch.float32:
        if head_size <= 64:
            return 32, Tuning(16, 4, 1)
        return 16, Tuning(16, 4 if head_size <= 128 else 8, 1)
    if head_size <= 128:
        return 128, Tuning(64, 8, 2)
    # On sm_100 sums live in tensor memory, and 8 warps would get too few registers each.
    return 64, Tuning(32, 4 if capability // 10 == 10 else 8, 2)


def splits_for(programs: int, max_context: int, tile: int, processors: int) -> int:
    """Into how many parts each context is cut; 1 means the one-pass kernel.

    programs: requests times KV heads. max_context: the most tokens that a request may have (the table's width: the
    lengths themselves are on the GPU, and a captured graph must not depend on them).

    One pass already fills the GPU from about two programs an SM on. Below that, cut until there are four an SM (memory
    waits overlap better than with two), but no part under four tiles (a part has a start and an end to pay for), and
    64 parts at most. Powers of two, because each number of parts is a kernel of its own to compile.
    """
    if programs >= 2 * processors:
        return 1
    wanted = -(-4 * processors // programs)
    longest_useful = max_context // (4 * tile)
    most = max(1, min(wanted, longest_useful, 64))
    return 1 << (most.bit_length() - 1)
