"""What is a block, and in which order are free blocks handed out?

Read this file first: a block's record, and the queue in which it waits for its next owner. ``block_pool.py`` is
built from these two, ``manager.py`` from the pool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


class KVCacheBlock:
    """One physical block: room for the K and V of ``block_size`` tokens, in all layers.

    This object is only the block's *record*; the bytes lie in the engine's pool of tensors at index ``block_id``.
    There is exactly one record per block, made once and never again: a record stands in several block tables, in
    the hash index and in the free queue, and all of them must see the same ``ref_cnt``. That is also why ids never
    change and blocks never move: a table, once written, stays right.

    ==============  ============================================================================================
    free, no hash   nobody owns it and nothing in it is worth keeping: it is at the head of the free queue
    in use          ``ref_cnt`` 1 or more; it got a hash when it was filled
    free, hashed    nobody owns it, but its content can still be hit: it waits in the free queue to be revived or
                    handed out, whichever comes first
    ==============  ============================================================================================

    Source: vLLM ``v1/core/kv_cache_utils.py``, class ``KVCacheBlock``.
    """

    __slots__ = ("block_id", "ref_cnt", "_block_hash", "is_cached", "prev_free_block", "next_free_block", "is_null")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_cnt = 0  # how many block tables hold it
        self.block_hash = None
        # The neighbours in the free queue; None while the block is in use.
        self.prev_free_block: KVCacheBlock | None = None
        self.next_free_block: KVCacheBlock | None = None
        self.is_null = False

    @property
    def block_hash(self) -> bytes | None:
        """Set while the block can be found by its tokens.

        ``is_cached`` says no more than whether it is set. To compare a hash with None, Python fetches the hash itself,
        which lies in memory far from the block; asking the flag instead saves a third of the time of ``free_blocks``.
        """
        return self._block_hash

    @block_hash.setter
    def block_hash(self, block_hash: bytes | None) -> None:
        self._block_hash = block_hash
        self.is_cached = block_hash is not None

    def __getstate__(self) -> tuple:
        # Copied and pickled without its links: the queue knows the order, and following links recurses block by block.
        return self.block_id, self.ref_cnt, self.block_hash, self.is_null

    def __setstate__(self, state: tuple) -> None:
        self.block_id, self.ref_cnt, self.block_hash, self.is_null = state
        self.prev_free_block = self.next_free_block = None

    def __repr__(self) -> str:
        return f"KVCacheBlock(#{self.block_id}, ref_cnt={self.ref_cnt}, cached={self.is_cached})"


class FreeKVCacheBlockQueue:
    """The free blocks as a doubly linked list. The head is handed out next, the tail last.

    Why not a deque: a block that nobody owns may still hold a prefix that the next request wants. That block then
    has to leave the queue *from wherever it stands*, and only a linked list does so without walking. The links are
    fields of the blocks themselves, so that queueing allocates nothing. Two sentinels at the ends spare every
    operation the question whether it is at an end.

    The queue trusts its callers in one thing: what is appended or prepended is not in it already
    (:class:`BlockPool` sees to that by reference counts).

    Source: vLLM ``v1/core/kv_cache_utils.py``, class ``FreeKVCacheBlockQueue``.
    """

    def __init__(self, blocks: list[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self._head = KVCacheBlock(-1)
        self._tail = KVCacheBlock(-1)
        self._head.next_free_block = self._tail
        self._tail.prev_free_block = self._head
        self.append_n(blocks)

    def __getstate__(self) -> list[KVCacheBlock]:
        return self.get_all_free_blocks()

    def __setstate__(self, blocks: list[KVCacheBlock]) -> None:
        self.__init__(blocks)

    def popleft(self) -> KVCacheBlock:
        """Take the block at the head. Raises ValueError where the queue is empty."""
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[KVCacheBlock]:
        """Take ``n`` blocks from the head, in queue order. Raises ValueError, and takes none, where there are
        fewer."""
        if n < 0 or n > self.num_free_blocks:
            raise ValueError(f"cannot take {n} blocks: the free queue holds {self.num_free_blocks}")
        taken = []
        block = self._head.next_free_block
        for _ in range(n):
            taken.append(block)
            after = block.next_free_block
            block.prev_free_block = block.next_free_block = None
            block = after
        self._head.next_free_block = block
        block.prev_free_block = self._head
        self.num_free_blocks -= n
        return taken

    def remove(self, block: KVCacheBlock) -> None:
        """Take ``block`` out of the middle. Raises ValueError where it is not in the queue."""
        before, after = block.prev_free_block, block.next_free_block
        if before is None or after is None:
            raise ValueError(f"block #{block.block_id} is not in the free queue")
        before.next_free_block = after
        after.prev_free_block = before
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1

    def append_n(self, blocks: list[KVCacheBlock]) -> None:
        """Put ``blocks`` behind the tail, in their order: they are handed out last."""
        self._insert_n(blocks, self._tail.prev_free_block, self._tail)

    def prepend_n(self, blocks: list[KVCacheBlock]) -> None:
        """Put ``blocks`` before the head, in their order: they are handed out next."""
        self._insert_n(blocks, self._head, self._head.next_free_block)

    def _insert_n(self, blocks: list[KVCacheBlock], before: KVCacheBlock, after: KVCacheBlock) -> None:
        for block in blocks:
            before.next_free_block = block
            block.prev_free_block = before
            before = block
        before.next_free_block = after
        after.prev_free_block = before
        self.num_free_blocks += len(blocks)

    def get_all_free_blocks(self) -> list[KVCacheBlock]:
        """Every free block, head first. Walks the whole queue: for looking, not for deciding."""
        found = []
        block = self._head.next_free_block
        while block is not self._tail:
            found.append(block)
            block = block.next_free_block
        return found


def block_ids(blocks: Iterable[KVCacheBlock]) -> list[int]:
    """The blocks' numbers, in their order."""
    return [block.block_id for block in blocks]


def ids_of_groups(blocks: Sequence[KVCacheBlock] | tuple[Sequence[KVCacheBlock], ...]) -> Any:
    """What ``allocate_slots`` gave, in numbers: those of the blocks, or for each group of layers those of its own."""
    return tuple(map(block_ids, blocks)) if isinstance(blocks, tuple) else block_ids(blocks)


def ref_cnts(blocks: Iterable[KVCacheBlock]) -> tuple[int, ...]:
    """How many owners each of the blocks has, by its own count."""
    return tuple([block.ref_cnt for block in blocks])  # a list comprehension is the quickest way
