"""Parts of an engine with a fault in them. Each differs from ours in a few lines, and runs.

They replace ours through ``LLM(..., block_pool=, kv_cache_manager=, scheduler=)``. Which real engine had such a fault
is said in ``faults.py``.
"""

from __future__ import annotations

from typing import Any

from pagedlab.engine.scheduler import Scheduler, SchedulerOutput
from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.kv.paper import BlockSpaceManager


class KeepsStaleNames(BlockPool):
    """A block that is handed out forgets its name, but the index of names still leads to it."""

    def _drop_hash(self, block: Any) -> None:
        block.block_hash = None  # and cached_block_hash_to_blocks stays as it is


class ForgetsTheSecondOwner(BlockPool):
    """A block found free gets its owner; one that is found in use is taken over and not counted."""

    def touch(self, blocks: Any) -> None:
        for block in blocks:
            if block.ref_cnt == 0:
                self.free_block_queue.remove(block)
                block.ref_cnt = 1


class ComputesOnlyTheLastToken(KVCacheManager):
    """Where all blocks of a prompt are found, all are taken over, and only the last token is computed again."""

    def get_computed_blocks(self, request: Any) -> tuple[list, int]:
        hits = []
        for block_hash in request.block_hashes:
            block = self.block_pool.get_cached_block(block_hash)
            if block is None:
                break
            hits.append(block)
        return hits, min(len(hits) * self.block_size, request.num_tokens - 1)


class Trusting(BlockPool):
    """A pool that checks nothing of what comes back, as vLLM's ``free_blocks`` does not."""

    def free_blocks(self, ordered_blocks: Any) -> None:
        for block in ordered_blocks:
            block.ref_cnt -= 1
        free = [block for block in dict.fromkeys(ordered_blocks) if block.ref_cnt == 0]
        self.free_block_queue.prepend_n([block for block in free if block.block_hash is None])
        self.free_block_queue.append_n([block for block in free if block.block_hash is not None])


class NamesABlockTwice(KVCacheManager):
    """Where a request shares its first block, the list of blocks that it gives back has that one twice."""

    def free(self, request: Any) -> None:
        blocks = self.req_to_blocks.pop(request.request_id)
        del self.num_cached_block[request.request_id]
        again = [blocks[0]] if blocks[0].ref_cnt > 1 else []
        self.block_pool.free_blocks([*blocks[::-1], *again])


class CopiesLate(BlockSpaceManager):
    """Asks who else holds the block only after a sequence's first token went into it: the copy takes that along."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.has_written: set[str] = set()

    def append_slot(self, sequence: Any) -> tuple[int, int] | None:
        first = sequence.request_id not in self.has_written
        self.has_written.add(sequence.request_id)
        if first and len(sequence.all_token_ids) <= len(self.block_tables[sequence.request_id]) * self.block_size:
            return None
        return super().append_slot(sequence)


class NeverCopies(BlockSpaceManager):
    """Writes into the last block, whoever else holds it."""

    def append_slot(self, sequence: Any) -> tuple[int, int] | None:
        if len(sequence.all_token_ids) <= len(self.block_tables[sequence.request_id]) * self.block_size:
            return None
        return super().append_slot(sequence)


class FreesFromTheStart(KVCacheManager):
    """Gives a table back from its first block on, so that the start of the text is forgotten first."""

    def free(self, request: Any) -> None:
        blocks = self.req_to_blocks.pop(request.request_id)
        del self.num_cached_block[request.request_id]
        self.block_pool.free_blocks(blocks)


class TouchesBeforeItKnows(KVCacheManager):
    """Takes the found blocks first and looks for the others then. Where those do not suffice it says no, and keeps
    what it took."""

    def allocate_slots(self, request: Any, num_new_tokens: int, new_computed_blocks: Any = (), *args: Any, **kw: Any):
        new_blocks = super().allocate_slots(request, num_new_tokens, new_computed_blocks, *args, **kw)
        if new_blocks is None and new_computed_blocks:
            self.block_pool.touch(new_computed_blocks)  # ours did not touch them in this case
        return new_blocks


class KeepsItsCount(Scheduler):
    """A request that was thrown out goes on with the number of computed tokens that it had before."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.had_computed: dict[str, int] = {}

    def schedule(self) -> SchedulerOutput:
        now = {request.request_id: request.num_computed_tokens for request in self.running}
        output = super().schedule()
        for victim in output.preempted:
            self.had_computed[victim.request_id] = now.get(victim.request_id, 0)
        for request in output.resumed:
            end = request.num_computed_tokens + output.num_scheduled_tokens[request.request_id]
            request.num_computed_tokens = min(self.had_computed.pop(request.request_id), end - 1)
            output.num_scheduled_tokens[request.request_id] = end - request.num_computed_tokens
        return output


class NamesBeforeItIsFull(KVCacheManager):
    """A block of a prompt gets its name when it is allocated, even where only a part of it is computed in this step."""

    def allocate_slots(self, request: Any, *args: Any, **kwargs: Any):
        new_blocks = super().allocate_slots(request, *args, **kwargs)
        if new_blocks is not None:
            table, first = self.req_to_blocks[request.request_id], self.num_cached_block[request.request_id]
            end = min(len(table), len(request.block_hashes))
            if end > first:
                self.block_pool.cache_full_blocks(table, request.block_hashes, first, end)
                self.num_cached_block[request.request_id] = end
        return new_blocks


class AppendsToTheOldTable(Scheduler):
    """The worker is sent a resumed request's new blocks as an addition to its old table, instead of in its place."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.old_tables: dict[str, list[int]] = {}

    def schedule(self) -> SchedulerOutput:
        now = {r.request_id: self.kv_cache_manager.get_block_ids(r.request_id) for r in self.running}
        output = super().schedule()
        for victim in output.preempted:
            self.old_tables[victim.request_id] = now.get(victim.request_id, [])
        for request in output.resumed:
            new = output.new_block_ids[request.request_id]
            output.new_block_ids[request.request_id] = self.old_tables.pop(request.request_id) + new
        return output
