"""Turns what a pool and a manager do into events.

These wrap a :class:`BlockPool` and a :class:`KVCacheManager`, ours or a learner's, and watch from outside: they
call the part and then say what it did. So a learner's own pool shows in the labs, and a pool that nobody watches
pays nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pagedlab.kv.block import KVCacheBlock, block_ids, ref_cnts
from pagedlab.kv.observed_order import ImpliedOrder
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Recorder, source_of


class FreeBlockQueueView:
    """The free queue of a V1 pool. It can be confirmed at its ends where it is a list linked through the blocks' own
    ``prev_free_block`` and ``next_free_block``, from a sentinel (or None) to another; whatever else it is made of, it
    is walked."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def walk(self) -> list[int]:
        return block_ids(self._pool.free_block_queue.get_all_free_blocks())

    def confirms(self, head: Sequence[int], tail: Sequence[int]) -> bool:
        blocks = self._pool.blocks
        head, tail = [blocks[i] for i in head], [blocks[i] for i in tail]
        if not isinstance(head[0], KVCacheBlock):  # a record of a learner's own, which may have no links
            return False
        before, after = head[0].prev_free_block, tail[-1].next_free_block
        return (
            (before is None or (self._is_sentinel(before) and before.next_free_block is head[0]))
            and (after is None or self._is_sentinel(after))
            and _follow(head)
            and _follow(tail)
        )

    def _is_sentinel(self, block: KVCacheBlock) -> bool:
        i, blocks = block.block_id, self._pool.blocks
        return not (isinstance(i, int) and 0 <= i < len(blocks) and blocks[i] is block)

    def ends(self, walked: list[int], freed: Collection[int], named: Collection[int]) -> tuple[list[int], list[int]]:
        """Those between other blocks count as come to the tail, where they were passed on from."""
        head = next((i for i, block_id in enumerate(walked) if block_id not in freed), len(walked))
        if head == len(walked):  # only these are free: the ones with a hash are those at the tail
            while head and walked[head - 1] in named:
                head -= 1
        return walked[:head], [block_id for block_id in walked[head:] if block_id in freed]


def _follow(blocks: list[KVCacheBlock]) -> bool:
    """Does each link lead to the next of them? (Equal lists of the same objects are compared by their addresses.)"""
    return [block.next_free_block for block in blocks[:-1]] == blocks[1:]


def _without_hash(blocks: Sequence[KVCacheBlock]) -> list[KVCacheBlock]:
    try:
        return [block for block in blocks if not block.is_cached]
    except AttributeError:  # a record of a learner's own
        return [block for block in blocks if block.block_hash is None]


class ObservedBlockPool:
    """A block pool that tells ``recorder`` what happens in it. Everything else is the wrapped pool's."""

    def __init__(self, pool: Any, block_size: int, recorder: Recorder) -> None:
        self._pool = pool
        self._block_size = block_size
        self._recorder = recorder
        self._order = ImpliedOrder(FreeBlockQueueView(pool), len(pool.blocks), "v1", recorder)
        self._order.settle(source_of(type(pool)))  # it may begin in an order of its own
        self._hashes: dict[int, bytes] = {}  # which blocks had a hash, as far as the trace has said
        self.request_id = ""  # on whose behalf the manager works at the moment,
        self.group = 0  # and for which group of layers
        self.token_ids: Sequence[int] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked while a copy is being made, before there is a pool
            raise AttributeError(name)
        return getattr(self._pool, name)

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        blocks = self._pool.get_new_blocks(num_blocks)
        source, numbers = source_of(self._pool.get_new_blocks), tuple(block_ids(blocks))
        self._order.take(numbers, source)
        self._say_forgotten(blocks, source)
        self._recorder.emit(
            ev.BlocksAllocated(
                request_id=self.request_id,
                block_ids=numbers,
                ref_cnt=ref_cnts(blocks),
                group=self.group,
                source=source,
            )
        )
        self._order.settle(source)
        return blocks

    def touch(self, blocks: Sequence[KVCacheBlock], logical_blocks: Sequence[int] | None = None) -> None:
        revived = [block.ref_cnt == 0 for block in blocks]
        self._pool.touch(blocks)
        source = source_of(self._pool.touch)
        for block, was_free, logical in zip(blocks, revived, logical_blocks or [None] * len(blocks), strict=True):
            if was_free:
                self._order.leave(block.block_id)
            self._recorder.emit(
                ev.BlockTouched(
                    request_id=self.request_id,
                    block_id=block.block_id,
                    revived=was_free,
                    ref_cnt=block.ref_cnt,
                    group=self.group,
                    logical_block=logical,
                    source=source,
                )
            )
        self._order.settle(source)

    def free_blocks(
        self,
        ordered_blocks: Sequence[KVCacheBlock],
        event: type[ev.BlocksFreed | ev.BlocksOutOfWindow] = ev.BlocksFreed,
    ) -> None:
        self._pool.free_blocks(ordered_blocks)
        source = source_of(self._pool.free_blocks)
        numbers, counts = tuple(block_ids(ordered_blocks)), ref_cnts(ordered_blocks)
        freed = tuple([n for n, count in zip(numbers, counts, strict=True) if not count]) if any(counts) else numbers
        without_hash = _without_hash(ordered_blocks)
        nameless = {block.block_id: None for block in without_hash if not block.ref_cnt}
        named = tuple([number for number in freed if number not in nameless]) if nameless else freed
        # vLLM's rule is where they are looked for first; the pool may be a learner's, and have another.
        to_head, to_tail = self._order.give_back(tuple(nameless), named)
        self._recorder.emit(
            event(
                request_id=self.request_id,
                block_ids=numbers,
                to_head=tuple(to_head),
                to_tail=tuple(to_tail),
                ref_cnt=counts,
                group=self.group,
                source=source,
            )
        )
        self._say_forgotten(without_hash, source)  # ours forgets none; look all the same
        self._order.settle(source)

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
                    group=self.group,
                    source=source_of(self._pool.cache_full_blocks),
                )
            )

    def evict_blocks(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._pool.evict_blocks(blocks)
        source = source_of(self._pool.evict_blocks)
        self._say_forgotten(blocks, source)
        self._order.settle(source)

    def _say_forgotten(self, blocks: Sequence[KVCacheBlock], source: str) -> None:
        """Those of ``blocks`` that had a hash and have none any more."""
        for block_id in [b.block_id for b in _without_hash(blocks) if b.block_id in self._hashes]:
            block_hash = self._hashes.pop(block_id).hex()
            self._recorder.emit(ev.BlockEvicted(block_id=block_id, block_hash=block_hash, source=source))

    def reset_prefix_cache(self) -> bool:
        done = self._pool.reset_prefix_cache()
        if done:
            self._hashes.clear()
            source = source_of(self._pool.reset_prefix_cache)
            self._recorder.emit(ev.PrefixCacheReset(source=source))
            self._order.settle(source)
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

    def cache_blocks(self, request: Any, num_tokens: int) -> None:
        self._pool.request_id, self._pool.token_ids = request.request_id, request.all_token_ids
        self._manager.cache_blocks(request, num_tokens)

    def free(self, request: Any) -> None:
        self._pool.request_id = request.request_id
        self._manager.free(request)
