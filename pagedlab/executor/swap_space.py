"""The CPU's side of swapping: a second pool of the same blocks, and the copies between the two."""

from __future__ import annotations

import torch

from pagedlab.attention import KVPool


class SwapSpace:
    """``num_blocks`` blocks in the CPU's memory, laid out like ``kv_pool``: [layers, 2, blocks, block size, KV heads,
    head size].

    Pinned where the pool is on a GPU, as vLLM's: only from such pages could the GPU copy by itself, while the engine
    goes on. Ours waits for each copy.
    """

    def __init__(self, kv_pool: KVPool, num_blocks: int) -> None:
        self.kv_pool = kv_pool
        layers, two, _, *block = kv_pool.data.shape
        with torch.inference_mode(False):
            self.data = torch.zeros(
                layers, two, num_blocks, *block, dtype=kv_pool.dtype, pin_memory=kv_pool.device.type == "cuda"
            )

    def swap_out(self, pairs: list[tuple[int, int]]) -> None:
        """Copy whole blocks, all layers, K and V: ``pairs`` are (block, CPU block)."""
        self.copy(self.kv_pool.data, self.data, pairs)

    def swap_in(self, pairs: list[tuple[int, int]]) -> None:
        """Copy back: ``pairs`` are (CPU block, block)."""
        self.copy(self.data, self.kv_pool.data, pairs)

    @staticmethod
    def copy(origin: torch.Tensor, target: torch.Tensor, pairs: list[tuple[int, int]]) -> None:
        """Blocks ``pairs`` (from, to) of one pool's bytes into another's. Raises PagedlabError, and copies nothing, for
        a block that is not there, or two that go into one."""
        from pagedlab.kernels.pairs import check_pairs

        sources, destinations = check_pairs("swap", pairs, origin.shape[2], target.shape[2])
        if not sources:
            return
        # One gather, one transfer and one scatter, whatever the number of blocks. (vLLM v0.2.0 started a transfer for
        # each block of each layer, which is why the paper found small blocks slow to swap.)
        gathered = origin.index_select(2, torch.tensor(sources, device=origin.device))
        target.index_copy_(2, torch.tensor(destinations, device=target.device), gathered.to(target.device))
