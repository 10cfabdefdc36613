"""Turns what a pool and a manager do into events.

These wrap a :class:`BlockPool` and a :class:`KVCacheManager`, ours or a learner's, and watch from outside: they
call the part and then say what it did. So a learner's own pool shows in the labs, and a pool that nobody watches
pays nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pagedlab.kv.block import KVCacheBlock, block_ids, ref_cnts
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Recorder, source_of


class ObservedBlockPool:
    """A block pool that tells ``recorder`` what happens in it. Everything else is the wrapped pool's."""

    def __init__(self, pool: Any, block_size: int, recorder: Recorder) -> None:
        self._pool = pool
        self._block_size = block_size
        self._recorder = recorder
        self._hashes: dict[int, bytes] = {}  # which blocks had a hash, as far as the trace has said
        self.request_id = ""  # on whose behalf the manager works at the moment
        self.token_ids: Sequence[int] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked while a copy is being made, before there is a pool
            raise AttributeError(name)
        return getattr(self._pool, name)

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        blocks = self._pool.get_new_blocks(num_blocks)
        source = source_of(self._pool.get_new_blocks)
        for block in blocks:
            if block.block_id in self._hashes and block.block_hash is None:
                block_hash = self._hashes.pop(block.block_id)
                self._recorder.emit(
                    ev.BlockEvicted(block_id=block.block_id, block_hash=block_hash.hex(), source=source)
                )
        self._recorder.emit(
            ev.BlocksAllocated(
                request_id=self.request_id, block_ids=tuple(block_ids(blocks)), ref_cnt=ref_cnts(blocks), source=source
            )
        )
        return blocks

    def touch(self, blocks: Sequence[KVCacheBlock]) -> None:
        revived = [block.ref_cnt == 0 for block in blocks]
        self._pool.touch(blocks)
        for block, was_free in zip(blocks, revived, strict=True):
            self._recorder.emit(
                ev.BlockTouched(
                    request_id=self.request_id,
                    block_id=block.block_id,
                    revived=was_free,
                    ref_cnt=block.ref_cnt,
                    source=source_of(self._pool.touch),
                )
            )

    def free_blocks(self, ordered_blocks: Sequence[KVCacheBlock]) -> None:
        self._pool.free_blocks(ordered_blocks)
        # Where did they go? Look, rather than assume vLLM's rule: the pool may be a learner's.
        freed = {block.block_id for block in ordered_blocks if block.ref_cnt == 0}
        queue = block_ids(self._pool.free_block_queue.get_all_free_blocks())
        head = 0
        while head < len(queue) and queue[head] in freed:
            head += 1
        tail = len(queue)
        while tail > head and queue[tail - 1] in freed:
            tail -= 1
        if head == len(queue):  # only these are free: the hashed ones are those at the tail
            while head > 0 and queue[head - 1] in self._hashes:
                head -= 1
            tail = head
        self._recorder.emit(
            ev.BlocksFreed(
                request_id=self.request_id,
                block_ids=tuple(block_ids(ordered_blocks)),
                to_head=tuple(queue[:head]),
                to_tail=tuple(queue[tail:]),
                ref_cnt=ref_cnts(ordered_blocks),
                source=source_of(self._pool.free_blocks),
            )
        )

    def cache_full_blocks(
        self, blocks: Sequence[KVCacheBlock], block_hashes: Sequence[bytes], first: int, end: int
    ) -> None:
        self._pool.cache_full_blocks(blocks, block_hashes, first, end)
        size = self._block_size
        for i in range(first, end):
            self._hashes[blocks[i].block_id] = block_hashes[i]
            self._recorder.emit(
                ev.BlockCached(
                    block_id=blocks[i].block_id,
                    block_hash=block_hashes[i].hex(),
                    parent_hash=block_hashes[i - 1].hex() if i else None,
                    token_ids=tuple(self.token_ids[i * size : (i + 1) * size]),
                    source=source_of(self._pool.cache_full_blocks),
                )
            )

    def evict_blocks(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._pool.evict_blocks(blocks)
        for block in blocks:
            if block.block_id in self._hashes and block.block_hash is None:
                block_hash = self._hashes.pop(block.block_id)
                self._recorder.emit(
                    ev.BlockEvicted(
                        block_id=block.block_id,
                        block_hash=block_hash.hex(),
                        source=source_of(self._pool.evict_blocks),
                    )
                )

    def reset_prefix_cache(self) -> bool:
        done = self._pool.reset_prefix_cache()
        if done:
            self._hashes.clear()
            self._recorder.emit(ev.PrefixCacheReset(source=source_of(self._pool.reset_prefix_cache)))
        return done


class ObservedKVCacheManager:
    """A manager that tells ``recorder`` for whom the pool works, what was looked up and what did not fit."""

    def __init__(self, manager: Any, pool: ObservedBlockPool, recorder: Recorder) -> None:
        self._manager = manager
        self._pool = pool
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._manager, name)

    def get_computed_blocks(self, request: Any) -> tuple[list[KVCacheBlock], int]:
        blocks, num_tokens = self._manager.get_computed_blocks(request)
        self._recorder.emit(
            ev.PrefixLookedUp(
                request_id=request.request_id,
                block_ids=tuple(block_ids(blocks)),
                num_tokens=num_tokens,
                source=source_of(self._manager.get_computed_blocks),
            )
        )
        return blocks, num_tokens

    def allocate_slots(self, request: Any, num_new_tokens: int, *args: Any, **kwargs: Any) -> list[KVCacheBlock] | None:
        self._pool.request_id, self._pool.token_ids = request.request_id, request.all_token_ids
        new_blocks = self._manager.allocate_slots(request, num_new_tokens, *args, **kwargs)
        if new_blocks is None:
            self._recorder.emit(
                ev.AllocationFailed(
                    request_id=request.request_id,
                    num_tokens=num_new_tokens,
                    num_free_blocks=self._pool.get_num_free_blocks(),
                    source=source_of(self._manager.allocate_slots),
                )
            )
        return new_blocks

    def free(self, request: Any) -> None:
        self._pool.request_id = request.request_id
        self._manager.free(request)
