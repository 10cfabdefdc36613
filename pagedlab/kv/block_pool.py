"""Which physical blocks are free, which are shared, and which can be found by what they hold?"""

from __future__ import annotations

from collections.abc import Sequence

from pagedlab.kv.block import FreeKVCacheBlockQueue, KVCacheBlock


class BlockPool:
    """All physical blocks. It knows no requests: only reference counts, the free queue, and hashes.

    A block's life: it is handed out (``ref_cnt`` 1), perhaps shared (more), given back (0). A block given back
    keeps its bytes and, if it was full, its hash: it waits in the free queue and can be revived by :meth:`touch`
    until it is handed out again. So the free queue is at once the list of free blocks and the eviction order of the
    prefix cache, and a cache that fills all of memory still leaves all of memory free.

    Every block but block 0 is at any moment in exactly one of two places: in the free queue (``ref_cnt`` 0), or in
    ``ref_cnt`` block tables. Block 0 is the null block, as in vLLM: it is never handed out, so that 0 can stand for
    "no block here" in a table. Whatever raises here, has changed nothing.

    Source: vLLM ``v1/core/block_pool.py``, class ``BlockPool``. (That one is handed the request where blocks get their
    hashes, and reads them from it. It does not care who owns what, either.)
    """

    def __init__(self, num_gpu_blocks: int, enable_caching: bool = True) -> None:
        if num_gpu_blocks < 2:
            raise ValueError(
                f"num_gpu_blocks is {num_gpu_blocks}; a pool needs at least 2: the null block and one more"
            )
        self.num_gpu_blocks = num_gpu_blocks
        self.enable_caching = enable_caching
        self.blocks = [KVCacheBlock(i) for i in range(num_gpu_blocks)]
        self.free_block_queue = FreeKVCacheBlockQueue(self.blocks)
        self.null_block = self.free_block_queue.popleft()
        self.null_block.is_null = True
        # Two blocks may hold the same prefix (two requests computed it at the same time). Both are kept, since a
        # table is never changed once it is written; a lookup finds the one that came first.
        self.cached_block_hash_to_blocks: dict[bytes, list[KVCacheBlock]] = {}

    def get_num_free_blocks(self) -> int:
        """How many blocks can be handed out now; those that could still be hit count too."""
        return self.free_block_queue.num_free_blocks

    def get_usage(self) -> float:
        """The share of blocks in use, 0.0 to 1.0; the null block does not count."""
        return 1.0 - self.get_num_free_blocks() / (self.num_gpu_blocks - 1)

    def get_cached_block(self, block_hash: bytes) -> KVCacheBlock | None:
        """The block that was given this hash first, among those that still have it. It may be free or in use."""
        blocks = self.cached_block_hash_to_blocks.get(block_hash)
        return blocks[0] if blocks else None

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take ``num_blocks`` blocks from the head of the free queue. Raises ValueError where there are fewer, or
        for a count below 0.

        A hash is dropped here, when the block is handed out, and not when it was given back: until this moment it could
        be hit. This is how the cache evicts."""
        blocks = self.free_block_queue.popleft_n(num_blocks)
        for block in blocks:
            if block.is_cached:
                self._drop_hash(block)
            block.ref_cnt = 1
        return blocks

    def touch(self, blocks: Sequence[KVCacheBlock]) -> None:
        """One more owner for each of ``blocks`` (found by hash); those that nobody owned leave the free queue.

        Raises ValueError for the null block.
        """
        if self.null_block in blocks:
            raise ValueError("the null block cannot be shared: it holds nothing")
        for block in blocks:
            if block.ref_cnt == 0:
                self.free_block_queue.remove(block)
            block.ref_cnt += 1

    def free_blocks(self, ordered_blocks: Sequence[KVCacheBlock]) -> None:
        """One owner less for each of ``ordered_blocks``; those that nobody owns any more become free.

        Free blocks without a hash go to the head, in this order: nothing is lost by overwriting them, and their
        bytes were used last, so they may still be in one of the GPU's caches. Those with a hash go to the tail, in
        this order, and live longest. A shared block may be named once for each owner that gives it back. Raises
        ValueError where one is named that nobody owns, or more often than it has owners (a double free), and for the
        null block."""
        without_hash, with_hash, not_owned = [], [], []
        for block in ordered_blocks:
            block.ref_cnt = ref_cnt = block.ref_cnt - 1
            if ref_cnt == 0:
                if block.is_cached:
                    with_hash.append(block)
                else:
                    without_hash.append(block)
            elif ref_cnt < 0:
                not_owned.append(block)
        if not_owned:
            for block in ordered_blocks:
                block.ref_cnt += 1
            wrong = not_owned[0]
            what = "the null block" if wrong.is_null else f"block #{wrong.block_id}: nobody owns it (double free)"
            raise ValueError(f"cannot free {what}")
        if without_hash:
            self.free_block_queue.prepend_n(without_hash)
        if with_hash:
            self.free_block_queue.append_n(with_hash)

    def cache_full_blocks(
        self, blocks: Sequence[KVCacheBlock], block_hashes: Sequence[bytes], first: int, end: int
    ) -> None:
        """Give logical blocks ``first`` to ``end`` (exclusive) of a request their hashes: from now on they can be hit.

        ``blocks``: the request's table; ``block_hashes``: the hashes of its full blocks, both from logical block 0
        on. Raises ValueError where there are not so many blocks or hashes, for a block that has a hash or no owner,
        and where caching is off."""
        if not self.enable_caching:
            raise ValueError("cannot cache blocks: this pool was made with enable_caching=False")
        if not 0 <= first <= end <= min(len(blocks), len(block_hashes)):
            raise ValueError(
                f"cannot cache logical blocks {first} to {end}: there are {len(blocks)} blocks and {len(block_hashes)} "
                "block hashes"
            )
        for block in blocks[first:end]:
            if block.is_cached or block.ref_cnt == 0:
                raise ValueError(f"cannot cache block #{block.block_id}: it has a hash already, or no owner")
        for i in range(first, end):
            block, block_hash = blocks[i], block_hashes[i]
            block.block_hash = block_hash
            self.cached_block_hash_to_blocks.setdefault(block_hash, []).append(block)

    def evict_blocks(self, blocks: Sequence[KVCacheBlock]) -> None:
        """Drop the hashes of ``blocks``, whoever owns them: they do not hold, or not yet, what their names say. Those
        without a hash stay as they are."""
        for block in blocks:
            if block.is_cached:
                self._drop_hash(block)

    def reset_prefix_cache(self) -> bool:
        """Forget every hash; the free queue keeps its order. Refused (False) while any block is in use: its owner
        counts on it.

        For when the weights change: what is cached was computed with the old ones.
        """
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
