"""Which physical blocks are free, which are shared, and which can be found by what they hold?"""

from __future__ import annotations

from collections.abc import Sequence

from pagedlab.kv.block import FreeKVCacheBlockQueue, KVCacheBlock


class BlockPool:
    """All physical blocks. It knows no requests: only reference counts, the free queue, and hashes.

    A block's life: it is handed out (``ref_cnt`` 1), perhaps shared (more), given back (0). A block given back keeps its bytes
    and, if it was full, its hash: it waits in the free queue and can be revived by :meth:`touch` until it is handed out
    again. So the free queue is also the eviction order of the prefix cache.

    Block 0 is the null block, as in vLLM: it is never handed out, so 0 can stand for "no block" in a table.

    Source: vLLM ``v1/core/block_pool.py``, class ``BlockPool``.
    """

    def __init__(self, num_gpu_blocks: int, enable_caching: bool = True) -> None:
        if num_gpu_blocks < 2:
            raise ValueError(f"num_gpu_blocks is {num_gpu_blocks}; a pool needs at least 2: the null block and one more")
        self.num_gpu_blocks = num_gpu_blocks
        self.enable_caching = enable_caching
        self.blocks = [KVCacheBlock(i) for i in range(num_gpu_blocks)]
        self.free_block_queue = FreeKVCacheBlockQueue(self.blocks)
        self.null_block = self.free_block_queue.popleft()
        self.null_block.is_null = True
        # Two blocks may hold the same prefix (two requests computed it in the same step): all are kept, oldest first.
        self.cached_block_hash_to_blocks: dict[bytes, list[KVCacheBlock]] = {}

    def get_num_free_blocks(self) -> int:
        return self.free_block_queue.num_free_blocks

    def get_usage(self) -> float:
        """The share of blocks in use, 0.0 to 1.0; the null block does not count."""
        return 1.0 - self.get_num_free_blocks() / (self.num_gpu_blocks - 1)

    def get_cached_block(self, block_hash: bytes) -> KVCacheBlock | None:
        """The block that was given this hash first, among those that still have it."""
        blocks = self.cached_block_hash_to_blocks.get(block_hash)
        return blocks[0] if blocks else None

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take ``num_blocks`` blocks from the head of the free queue. Raises ValueError, and changes nothing, if too few.

        A hash is dropped here, when the block is handed out, and not before: until this moment it could be hit.
        """
        blocks = self.free_block_queue.popleft_n(num_blocks)
        for block in blocks:
            if block.block_hash is not None:
                self._drop_hash(block)
            block.ref_cnt = 1
        return blocks

    def touch(self, blocks: Sequence[KVCacheBlock]) -> None:
        """One more owner for each of ``blocks``; those that nobody owned leave the free queue."""
        for block in blocks:
            if block.ref_cnt == 0:
                self.free_block_queue.remove(block)
            block.ref_cnt += 1

    def free_blocks(self, ordered_blocks: Sequence[KVCacheBlock]) -> None:
        """One owner less for each of ``ordered_blocks``; those that nobody owns any more become free.

        Free blocks without a hash go to the head, in this order: nothing is lost by overwriting them, and their bytes were used
        last, so they may still be in a cache of the GPU. Those with a hash go to the tail, and live longest. Raises
        ValueError, and changes nothing, for a block that is already free (a double free) or the null block.
        """
        for block in ordered_blocks:
            if block.ref_cnt <= 0:
                what = "the null block" if block.is_null else f"block #{block.block_id}, which nobody owns (double free)"
                raise ValueError(f"cannot free {what}")
        without_hash, with_hash = [], []
        for block in ordered_blocks:
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                (without_hash if block.block_hash is None else with_hash).append(block)
        self.free_block_queue.prepend_n(without_hash)
        self.free_block_queue.append_n(with_hash)

    def cache_full_blocks(self, blocks: Sequence[KVCacheBlock], block_hashes: Sequence[bytes], first: int, end: int) -> None:
        """Give logical blocks ``first`` to ``end`` (exclusive) of a request their hashes.

        ``blocks``: the request's table; ``block_hashes``: the hashes of its full blocks, both from logical block 0 on.
        """
        for i in range(first, end):
            block, block_hash = blocks[i], block_hashes[i]
            block.block_hash = block_hash
            self.cached_block_hash_to_blocks.setdefault(block_hash, []).append(block)

    def reset_prefix_cache(self) -> bool:
        """Forget every hash. Refused (False, nothing changed) while any block is in use: its owner counts on it."""
        if self.get_num_free_blocks() != self.num_gpu_blocks - 1:
            return False
        self.cached_block_hash_to_blocks.clear()
        for block in self.blocks:
            block.block_hash = None
        return True

    def _drop_hash(self, block: KVCacheBlock) -> None:
        same = self.cached_block_hash_to_blocks[block.block_hash]
        same.remove(block)
        if not same:
            del self.cached_block_hash_to_blocks[block.block_hash]
        block.block_hash = None
