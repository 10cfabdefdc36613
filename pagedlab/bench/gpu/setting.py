"""What is measured on, and with: the device, the sizes, the memory that all parts share.

Times come from `triton.testing.do_bench` (median; it empties the second-level cache between runs). Everything runs on
a device that is handed in, so that the tests can run the same code, in small, under the interpreter.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

from pagedlab.attention import KVPool, LayerKV
from pagedlab.bench.gpu.shapes import Shapes
from pagedlab.kernels.launch import check_device


@dataclass
class Setting(Shapes):
    """The device, and the sizes; the defaults are what is measured on a GPU."""

    device: torch.device
    out: Path
    target: tuple[int, int] = (64, 4096)  # batch x context of the target: 85 % of the copy bandwidth on an H200
    long: tuple[int, int] = (1, 32768)
    head_sizes: tuple[int, ...] = (32, 64, 72, 80, 96, 128, 256)
    copy_bytes: int = 2 << 30
    check_contexts: tuple[int, ...] = (1, 16, 150, 700)  # lengths whose results are compared with the reference
    check_queries: tuple[int, ...] = (1, 16, 33, 300)
    chunk: int = 128  # tokens of a prompt in one step
    dtype: torch.dtype = field(init=False)
    layer: LayerKV | None = None

    def __post_init__(self):
        self.capability = check_device(self.device)
        self.dtype = torch.bfloat16 if self.capability is None or self.capability >= 80 else torch.float16
        self.scale = self.head_size**-0.5

    def time(self, function) -> float:
        """Seconds of one call, the median of some 20 ms of calls."""
        if self.device.type != "cuda":
            start = time.perf_counter()
            function()
            return time.perf_counter() - start
        from triton.testing import do_bench

        return do_bench(function, warmup=5, rep=20, return_mode="median") / 1000

    def free_bytes(self) -> int:
        return torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else 1 << 28

    def pool(self) -> LayerKV:
        """One layer that is large enough for the largest batch that fits, filled with random numbers; made once."""
        if self.layer is None:
            most = max(self.tokens(batch, context) for batch in self.batches for context in self.contexts)
            most = max(most, self.tokens(8, self.target[1]))
            blocks = min(most, int(0.6 * self.free_bytes()) // self.bytes_per_token) // 16
            pool = KVPool(1, blocks, 16, self.kv_heads, self.head_size, self.dtype, self.device)
            for part in pool.data.view(-1).split(1 << 28):
                part.normal_()
            self.layer = pool.layer(0)
        return self.layer

    def fits(self, batch: int, context: int) -> bool:
        return self.tokens(batch, context) <= self.pool().num_blocks * 16

    @staticmethod
    def tokens(batch: int, context: int) -> int:
        """Slots that a batch takes, in blocks of up to 256 tokens."""
        return batch * -(-context // 256) * 256

    def batch(self, batch: int, context: int, *, block_size: int = 16, scattered: bool = True):
        """Arguments of a decode call: `batch` requests of `context` tokens each, blocks all over the pool."""
        layer = self.pool()
        key, value = (t.flatten(0, 1) for t in (layer.key, layer.value))
        blocks = len(key) // block_size
        shape = (blocks, block_size, self.kv_heads, self.head_size)
        layer = LayerKV(key[: blocks * block_size].view(shape), value[: blocks * block_size].view(shape))
        each = -(-context // block_size)
        ids = torch.randperm(blocks, device=self.device) if scattered else torch.arange(blocks, device=self.device)
        tables = ids[: batch * each].view(batch, each).int()
        lengths = torch.full((batch,), context, dtype=torch.int32, device=self.device)
        starts = torch.arange(batch + 1, dtype=torch.int32, device=self.device)
        query = torch.randn(batch, self.query_heads, self.head_size, device=self.device).to(self.dtype)
        return query, layer, tables, lengths, starts
