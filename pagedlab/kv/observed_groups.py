"""Turns what a manager of several groups of layers does into events. See ``observed.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pagedlab.kv.block import KVCacheBlock, block_ids
from pagedlab.kv.groups import FullAttentionGroup, GroupedHits, GroupedKVCacheManager
from pagedlab.kv.observed import ObservedBlockPool, ObservedKVCacheManager
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Recorder, source_of


class PoolOfGroup:
    """The pool as one group sees it: it tells the observer on whose behalf it works, and is the observed pool else."""

    def __init__(self, observed: ObservedBlockPool, number: int, group: FullAttentionGroup) -> None:
        self._observed = observed
        self._number = number
        self._group = group

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked while a copy is being made
            raise AttributeError(name)
        self._observed.group = self._number
        return getattr(self._observed, name)

    def touch(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._observed.group = self._number
        table = self._group.req_to_blocks[self._observed.request_id]
        self._observed.touch(blocks, [table.index(block) for block in blocks])

    def free_blocks(self, ordered_blocks: Sequence[KVCacheBlock]) -> None:
        """A request that still has a table goes on, and its window has passed these blocks."""
        self._observed.group = self._number
        keeps_table = self._observed.request_id in self._group.req_to_blocks
        self._observed.free_blocks(ordered_blocks, ev.BlocksOutOfWindow if keeps_table else ev.BlocksFreed)


class ObservedGroupedKVCacheManager(ObservedKVCacheManager):
    """As its parent; every event names the group whose table it is about."""

    def __init__(self, manager: GroupedKVCacheManager, pool: ObservedBlockPool, recorder: Recorder) -> None:
        super().__init__(manager, pool, recorder)
        for number, group in enumerate(manager.groups):
            group.block_pool = PoolOfGroup(pool, number, group)

    def get_computed_blocks(self, request: Any) -> tuple[GroupedHits, int]:
        hits, num_tokens = self._manager.get_computed_blocks(request)
        for group, blocks in enumerate(hits.blocks):
            self._recorder.emit(
                ev.PrefixLookedUp(
                    request_id=request.request_id,
                    block_ids=tuple(block_ids(blocks)),
                    num_tokens=num_tokens,
                    group=group,
                    source=source_of(self._manager.get_computed_blocks),
                )
            )
        return hits, num_tokens

    def begin_anew(self, request: Any) -> None:
        self._pool.request_id = request.request_id
        self._manager.begin_anew(request)
