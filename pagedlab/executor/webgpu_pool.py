"""K and V in buffers of a GPU, two a layer: blocks are copied, swapped and kept there, and read back for lessons."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pagedlab.attention.kv_pool import LayerKV
from pagedlab.errors import PagedlabError, whole
from pagedlab.kernels.pairs import check_pairs
from pagedlab.kernels.wgsl.gpu import GPU, MOST_GROUPS, encode

LANES = 64
Snapshot = tuple[list[int], list[Any], list[int], np.ndarray]


class WebGPUPool:
    """``num_blocks`` blocks of ``block_shape`` (block size, KV heads, head size), all zero.

    ``dtype``: "float32" or "float16". ``num_cpu_blocks``: of the pool in main memory that blocks are swapped to. Units:
    everything named ``bytes`` is bytes.
    """

    def __init__(
        self, gpu: GPU, num_layers: int, num_blocks: int, block_shape: tuple[int, int, int], dtype: str,
        num_cpu_blocks: int,
    ) -> None:  # fmt: skip
        self.gpu, self.num_layers, self.num_blocks = gpu, num_layers, num_blocks
        self.block_size, self.num_kv_heads, self.head_size = self._block_shape = block_shape
        self.dtype = getattr(torch, dtype)
        self._number = np.dtype(dtype)
        numbers = int(np.prod(block_shape))
        self._piece = numbers * self._number.itemsize  # bytes of a block's K in one layer
        what = f"The pool's K of {num_blocks} blocks"
        self.buffers = [
            tuple(gpu.buffer(num_blocks * self._piece, what) for _ in ("K", "V")) for _ in range(num_layers)
        ]
        self._cpu = np.zeros((num_layers, 2, num_cpu_blocks, *block_shape), self._number)
        self._move = gpu.kernel("move_blocks", dtype, BLOCK=numbers, LANES=LANES)
        self._zeros = gpu.buffer(self._piece, "A block")

    @property
    def bytes_per_block(self) -> int:
        """2 (K and V) x layers x bytes of a block in one of them."""
        return 2 * self.num_layers * self._piece

    @property
    def bytes_per_token(self) -> int:
        return self.bytes_per_block // self.block_size

    @property
    def num_bytes(self) -> int:
        return self.num_blocks * self.bytes_per_block

    # -------------------------------------------------------------------------------------------------------- to read

    def read_block(self, layer: int, block: int) -> tuple[np.ndarray, np.ndarray]:
        """(key, value) float32 [block size, KV heads, head size]. Raises PagedlabError for what is not there."""
        for name, index, most in (("layer", layer, self.num_layers), ("block", block, self.num_blocks)):
            if not 0 <= whole(index, name) < most:
                raise PagedlabError(f"There is no {name} {index}; allowed are 0 to {most - 1}.")
        data = [self.gpu.read(part, self._piece, block * self._piece) for part in self.buffers[layer]]
        key, value = (self._numbers(part)[0].astype(np.float32) for part in data)
        return key, value

    def layer(self, index: int) -> LayerKV:
        """A copy of one layer in main memory, K and V [blocks, block size, KV heads, head size]."""
        parts = (self.gpu.read(part, self.num_blocks * self._piece) for part in self.buffers[index])
        return LayerKV(*(torch.from_numpy(self._numbers(part).copy()) for part in parts))

    @property
    def data(self) -> torch.Tensor:
        """A copy of everything in main memory, [layers, 2 (K, V), blocks, block size, KV heads, head size]."""
        layers = map(self.layer, range(self.num_layers))
        return torch.stack([torch.stack((layer.key, layer.value)) for layer in layers])

    def _numbers(self, data: bytes) -> np.ndarray:
        return np.frombuffer(data, self._number).reshape(-1, *self._block_shape)

    # -------------------------------------------------------------------------------------------------------- to move

    def copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        sources, destinations = check_pairs("copy_blocks", pairs, self.num_blocks, self.num_blocks)
        if sources:
            self._put(self._taken(sources), [*range(len(sources))], destinations)

    def swap_out(self, pairs: list[tuple[int, int]]) -> None:
        sources, destinations = check_pairs("swap_out", pairs, self.num_blocks, self._cpu.shape[2])
        for i, part in enumerate(self._taken(sources) if sources else []):
            self._cpu[i // 2, i % 2, destinations] = self._numbers(self.gpu.read(part, len(sources) * self._piece))

    def swap_in(self, pairs: list[tuple[int, int]]) -> None:
        sources, destinations = check_pairs("swap_in", pairs, self._cpu.shape[2], self.num_blocks)
        if sources:
            kept = [self.gpu.upload(part[sources], "Swapped blocks") for layer in self._cpu for part in layer]
            self._put(kept, [*range(len(sources))], destinations)

    def snapshot(self, blocks: list[int], cpu_blocks: list[int]) -> Snapshot:
        return list(blocks), self._taken(blocks), list(cpu_blocks), self._cpu[:, :, cpu_blocks].copy()

    def restore(self, snapshot: Snapshot, clear: list[int]) -> None:
        blocks, kept, cpu_blocks, cpu_kept = snapshot
        self._put([self._zeros] * len(kept), [0] * len(clear), list(clear))
        self._put(kept, [*range(len(blocks))], blocks)
        self._cpu[:, :, cpu_blocks] = cpu_kept

    def _taken(self, blocks: list[int]) -> list[Any]:
        """Copies of these blocks on the GPU, a buffer for each layer's K and V."""
        what = f"Copies of {len(blocks)} blocks"
        kept = [self.gpu.buffer(len(blocks) * self._piece, what) for _ in range(2 * self.num_layers)]
        self._move_all(self._flat(), kept, blocks, [*range(len(blocks))])
        return kept

    def _put(self, kept: list[Any], sources: list[int], blocks: list[int]) -> None:
        self._move_all(kept, self._flat(), sources, blocks)

    def _flat(self) -> list[Any]:
        return [part for layer in self.buffers for part in layer]

    def _move_all(self, origins: list[Any], copies: list[Any], sources: list[int], destinations: list[int]) -> None:
        for first in range(0, len(sources), MOST_GROUPS):
            some = [blocks[first : first + MOST_GROUPS] for blocks in (sources, destinations)]
            ids = [self.gpu.upload(np.array(blocks, np.uint32), "Block ids") for blocks in some]
            bound = (self._move.bind(a, *ids, b) for a, b in zip(origins, copies, strict=True))
            with self.gpu.submission() as encoder:
                encode(encoder, [(self._move.pipeline, one, (len(some[0]),)) for one in bound])
