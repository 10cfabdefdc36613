"""What is measured on, and with: an adapter, the sizes, the memory that parts share.

Nothing is known of the adapter beforehand; it may be a hundred times slower than another one. So copies grow until one
can be timed well, a shape is left out that would take too long at the speed of the one before, and the model whose
tokens are timed has SmolLM2's sizes only where a token of these takes less than a quarter of a second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pagedlab.bench.gpu.shapes import Shapes
from pagedlab.kernels.wgsl.gpu import GPU, Dispatch
from pagedlab.kernels.wgsl.timing import Timer

BLOCK_SIZE, LANES = 16, 64
SMOLLM2_WEIGHTS = 135e6


@dataclass
class WebGPUSetting(Shapes):
    """The adapter, and the sizes; the defaults are what is measured on a GPU."""

    gpu: GPU
    out: Path
    date: str  # of the run
    copy_bytes: int = 256 << 20
    pool_bytes: int = 256 << 20  # of K, and as many of V
    most_seconds: float = 0.25  # of anything that is run once and again
    steps: tuple[tuple[int, int], ...] = ((1, 256), (16, 256))  # requests x context of the decode steps that are timed
    cases: float = 1.0  # share of the kernels' random cases that is tried
    model: str | None = None  # whose tokens are timed
    dtype: np.dtype = field(init=False)

    def __post_init__(self) -> None:
        self.number = "float16" if self.gpu.has_f16 else "float32"
        self.dtype = np.dtype(self.number)
        self.timer = Timer(self.gpu)

    @cached_property
    def pool(self) -> tuple[Any, Any]:
        """K and V of one layer, full of random numbers."""
        row = BLOCK_SIZE * self.bytes_per_token // 2
        size = min(self.pool_bytes, self.gpu.largest) // row * row
        rng = np.random.default_rng(0)
        tile = self.gpu.upload(rng.standard_normal(min(size, 1 << 20) // self.dtype.itemsize).astype(self.dtype), "K")
        pool = tuple(self.gpu.buffer(size, name) for name in ("K", "V"))
        encoder = self.gpu.device.create_command_encoder()
        for part in pool:
            for first in range(0, size, tile.size):
                encoder.copy_buffer_to_buffer(tile, 0, part, first, min(tile.size, size - first))
        self.gpu.queue.submit([encoder.finish()])
        return pool

    @property
    def num_blocks(self) -> int:
        return self.pool[0].size // (BLOCK_SIZE * self.bytes_per_token // 2)

    def fits(self, batch: int, context: int) -> bool:
        return batch * -(-context // BLOCK_SIZE) <= self.num_blocks

    @cached_property
    def _attend(self) -> Any:
        group = self.query_heads // self.kv_heads
        return self.gpu.kernel(
            "attend", self.number, GROUP=group, KV_HEADS=self.kv_heads, HEAD_SIZE=self.head_size,
            BLOCK_SIZE=BLOCK_SIZE, WIDTH=(group + 2) * self.kv_heads * self.head_size,
            TABLE=-(-max(self.contexts) // BLOCK_SIZE), SCALE=self.head_size**-0.5, LANES=LANES,
        )  # fmt: skip

    def decode(self, batch: int, context: int) -> Dispatch:
        """A decode of `batch` requests of `context` tokens each, blocks all over the pool."""
        rng, upload = np.random.default_rng(batch), self.gpu.upload
        heads = self.query_heads + 2 * self.kv_heads
        tables = np.zeros((batch, -(-max(self.contexts) // BLOCK_SIZE)), np.uint32)
        each = -(-context // BLOCK_SIZE)
        tables[:, :each] = rng.permutation(self.num_blocks)[: batch * each].reshape(batch, each)
        qkv = rng.standard_normal((batch, heads * self.head_size)).astype(np.float32)
        numbers = (tables, np.arange(batch, dtype=np.uint32), np.full(batch, context - 1, np.uint32))
        attended = self.gpu.buffer(4 * batch * self.query_heads * self.head_size, "The result")
        bound = self._attend.bind(upload(qkv, "Queries"), *self.pool, *(upload(n, "Tables") for n in numbers), attended)
        return self._attend.pipeline, bound, (self.kv_heads, batch)

    @cached_property
    def llm(self) -> Any:
        """An engine that records, on an executor that keeps times."""
        from pagedlab.bench.gpu.webgpu.clocked import ClockedExecutor
        from pagedlab.engine import LLM

        blocks = 1 + max(requests * -(-context // BLOCK_SIZE) for requests, context in self.steps)
        executor = ClockedExecutor(self.model or self._model_for_this_adapter())
        return LLM(executor=executor, record=True, num_gpu_blocks_override=max(64, blocks))

    def _model_for_this_adapter(self) -> str:
        """By the time of one product of a matrix and a vector, as SmolLM2 has them."""
        rows, columns, upload = 1536, 576, self.gpu.upload
        kernel = self.gpu.kernel(
            "linear", self.number, IN=columns, OUT=rows, FIRST=0, WIDTH=rows, ADD=0, BIAS=0, COUNT=0, ROWS=8, TOKENS=1,
            LANES=32,
        )  # fmt: skip
        arrays = [np.ones(shape, self.dtype) for shape in ((rows, columns), (rows,))]
        bound = kernel.bind(
            upload(np.ones(1, np.uint32), "Counts"), *(upload(array, "Weights") for array in arrays),
            self.gpu.buffer(4 * columns, "A vector"), self.gpu.buffer(4 * rows, "A product"),
        )  # fmt: skip
        seconds = self.timer.seconds([(kernel.pipeline, bound, (rows // 8, 1))])
        token = seconds * SMOLLM2_WEIGHTS / (rows * columns)
        return "smollm2-random" if token < self.most_seconds else "tiny-random"
