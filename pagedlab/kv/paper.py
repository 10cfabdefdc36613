"""The memory manager of the paper's era: a stack of free blocks, fork, copy-on-write, swap.

Beside ``manager.py`` (what vLLM runs today) this shows what changed. There, blocks are found by a hash and shared only
when full, so that nothing is ever copied, and nothing is ever carried away. Here, a request is a *group* of sequences
that fork from each other and share every block they have in common; a second pool in the CPU's memory takes what has to
make room.

The free list is a stack: taken from its end, given back onto its end. There is no prefix cache, so a free block's
content is worth nothing and the order is of no importance; the block used last is the likeliest to be still in a cache
of the hardware.

Source: vLLM v0.2.0 ``core/block_manager.py``. One thing differs: it frees a table in the arbitrary order of a Python
set, we in the table's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pagedlab.kv import cow, swap
from pagedlab.kv.block import KVCacheBlock, block_ids

WATERMARK = 0.01  # vLLM v0.2.0's default


class SequenceLike(Protocol):
    """What the manager reads of a sequence (``pagedlab.engine.Request`` has it)."""

    request_id: str
    all_token_ids: Sequence[int]  # prompt and sampled tokens


class GroupLike(Protocol):
    """What the manager reads of a request."""

    def get_seqs(self) -> Sequence[SequenceLike]:
        """Its unfinished sequences, in the order in which they came to be."""


class BlockAllocator:
    """One pool of blocks, numbered from 0, and its free list. Nobody stands for "no block": there is no null block."""

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 0:
            raise ValueError(f"num_blocks is {num_blocks}; a pool has 0 blocks or more")
        self.blocks = [KVCacheBlock(i) for i in range(num_blocks)]
        self.free_blocks = list(self.blocks)  # the end is handed out next

    def allocate(self) -> KVCacheBlock:
        """Take the block on top. Raises ValueError where none is free."""
        if not self.free_blocks:
            raise ValueError("cannot allocate a block: none is free")
        block = self.free_blocks.pop()
        block.ref_cnt = 1
        return block

    def free(self, block: KVCacheBlock) -> None:
        """One owner less; a block that nobody owns any more goes on top. Raises ValueError for one that is free
        already."""
        if block.ref_cnt == 0:
            raise ValueError(f"cannot free block #{block.block_id}: it is free already (double free)")
        block.ref_cnt -= 1
        if block.ref_cnt == 0:
            self.free_blocks.append(block)

    def get_num_free_blocks(self) -> int:
        return len(self.free_blocks)

    def get_free_block_ids(self) -> list[int]:
        """Bottom first: the last one is handed out next."""
        return block_ids(self.free_blocks)


class BlockSpaceManager:
    """Gives the sequences of requests their blocks, in two pools. What raises, has changed nothing.

    ``watermark``: the share of the first pool that an admission or a swap-in has to leave free, so that those who run
    can grow a little before somebody is thrown out again. ``block_allocator(num_blocks)`` makes a pool.
    """

    def __init__(
        self,
        block_size: int,
        num_gpu_blocks: int,
        num_cpu_blocks: int = 0,
        watermark: float = WATERMARK,
        block_allocator: Callable[[int], BlockAllocator] = BlockAllocator,
    ) -> None:
        if block_size < 1 or num_gpu_blocks < 1 or not 0 <= watermark < 1:
            raise ValueError(
                f"block_size={block_size} and num_gpu_blocks={num_gpu_blocks} must be at least 1, "
                f"watermark={watermark} at "
                "least 0 and below 1"
            )
        self.block_size = block_size
        self.watermark_blocks = int(watermark * num_gpu_blocks)
        self.gpu_allocator = block_allocator(num_gpu_blocks)
        self.cpu_allocator = block_allocator(num_cpu_blocks)
        self.block_tables: dict[str, list[KVCacheBlock]] = {}  # of sequences whose blocks are in the first pool
        self.cpu_block_tables: dict[str, list[KVCacheBlock]] = {}  # of those swapped out
        self.copy_on_write = True  # off only where somebody wants to see what it is for

    # ------------------------------------------------------------------------------------------ start, and start again

    def can_allocate(self, group: GroupLike) -> bool:
        """Is there room for all tokens that the group holds, above the watermark?"""
        needed = sum(own for _, _, own in self._plan(group))
        return self.gpu_allocator.get_num_free_blocks() - needed >= self.watermark_blocks

    def allocate(self, group: GroupLike) -> None:
        """Blocks for all tokens of a group that starts (one sequence, the prompt) or comes back after a recomputation.

        One that comes back with several sequences shares the full blocks that they have in common again (vLLM v0.2.0
        could not do this: it recomputed only requests with one sequence). Raises ValueError where the blocks do not
        suffice, or the group has some.
        """
        sequences, plan = group.get_seqs(), self._plan(group)
        for sequence in sequences:
            if self._holds(sequence):
                raise ValueError(f"sequence {sequence.request_id!r} holds blocks already")
        needed = sum(own for _, _, own in plan)
        if needed > self.gpu_allocator.get_num_free_blocks():
            raise ValueError(f"{needed} blocks are needed, {self.gpu_allocator.get_num_free_blocks()} are free")
        tables: list[list[KVCacheBlock]] = []
        for other, shared, own in plan:
            table = cow.fork_table(tables[other][:shared]) if shared else []
            table += [self.gpu_allocator.allocate() for _ in range(own)]
            tables.append(table)
        for sequence, table in zip(sequences, tables, strict=True):
            self.block_tables[sequence.request_id] = table

    def _plan(self, group: GroupLike) -> list[tuple[int, int, int]]:
        """For each sequence: whose leading blocks it shares, how many of them, and how many it needs besides."""
        tokens = [sequence.all_token_ids for sequence in group.get_seqs()]
        shared = cow.common_blocks(tokens, self.block_size)
        return [(i, n, -(-len(t) // self.block_size) - n) for t, (i, n) in zip(tokens, shared, strict=True)]

    # --------------------------------------------------------------------------------------------------------- decode

    def can_append_slot(self, group: GroupLike) -> bool:
        """Can each running sequence get a slot? True where there is a free block for each of them, needed or not."""
        running = [s for s in group.get_seqs() if s.request_id in self.block_tables]
        return len(running) <= self.gpu_allocator.get_num_free_blocks()

    def append_slot(self, sequence: SequenceLike) -> tuple[int, int] | None:
        """A slot for the sequence's last token, which is not in memory yet. Returns (source, destination) where a block
        has to be copied first, else None. See :func:`pagedlab.kv.cow.append_slot`."""
        table, num_tokens = self._table(sequence), len(sequence.all_token_ids)
        if not self.copy_on_write and num_tokens <= len(table) * self.block_size:
            return None  # the slot is there, and nobody asks who else holds its block
        return cow.append_slot(table, num_tokens, self.block_size, self.gpu_allocator)

    def set_copy_on_write(self, on: bool) -> None:
        """Switch it off to see what it is for: whoever writes into a shared block then overwrites what others have
        there."""
        self.copy_on_write = on

    def fork(self, parent: SequenceLike, child: SequenceLike) -> None:
        """The child shares every block of its parent, in the pool where the parent is. Raises ValueError for a parent
        that holds no blocks (unknown, or finished) and for a child that holds some."""
        if self._holds(child):
            raise ValueError(f"sequence {child.request_id!r} holds blocks already; a child starts with none")
        tables, _ = self._home(parent)
        tables[child.request_id] = cow.fork_table(tables[parent.request_id])

    # ----------------------------------------------------------------------------------------------------------- swap

    def can_swap_out(self, group: GroupLike) -> bool:
        """Does the CPU pool have room for all blocks of the group? A shared one counts once."""
        return len(_distinct(self._tables_of(group, self.block_tables))) <= self.cpu_allocator.get_num_free_blocks()

    def swap_out(self, group: GroupLike) -> dict[int, int]:
        """All blocks of the group go to the CPU pool. Returns {block: CPU block} in the order moved. Raises ValueError
        where there is no room."""
        if not self.can_swap_out(group):
            raise ValueError(
                f"the CPU pool has {self.cpu_allocator.get_num_free_blocks()} free blocks, which are too few"
            )
        return self._move(group, self.block_tables, self.gpu_allocator, self.cpu_block_tables, self.cpu_allocator)

    def can_swap_in(self, group: GroupLike) -> bool:
        """Is there room for all blocks of the group and one more for each of its sequences (which go on at once), above
        the watermark?"""
        tables = self._tables_of(group, self.cpu_block_tables)
        needed = len(_distinct(tables)) + len(tables)
        return self.gpu_allocator.get_num_free_blocks() - needed >= self.watermark_blocks

    def swap_in(self, group: GroupLike) -> dict[int, int]:
        """All blocks of the group come back. Returns {CPU block: block} in the order moved. Raises ValueError where
        there is no room."""
        if not self.can_swap_in(group):
            raise ValueError(f"the pool has {self.gpu_allocator.get_num_free_blocks()} free blocks, which are too few")
        return self._move(group, self.cpu_block_tables, self.cpu_allocator, self.block_tables, self.gpu_allocator)

    def _move(
        self, group: GroupLike, here: dict, origin: BlockAllocator, there: dict, target: BlockAllocator
    ) -> dict[int, int]:
        names = [s.request_id for s in group.get_seqs() if s.request_id in here]
        tables, mapping = swap.move_tables([here[name] for name in names], origin, target)
        for name, table in zip(names, tables, strict=True):
            del here[name]
            there[name] = table
        return mapping

    # -------------------------------------------------------------------------------------------------------- the end

    def free(self, sequence: SequenceLike) -> None:
        """Give back all blocks of a sequence, wherever they are. Raises ValueError where it holds none (unknown, or
        freed before)."""
        tables, allocator = self._home(sequence)
        for block in tables.pop(sequence.request_id):
            allocator.free(block)

    def get_block_table(self, sequence: SequenceLike) -> list[int]:
        """Physical block ids in logical order, in the first pool. Raises ValueError where the sequence has none
        there."""
        return block_ids(self._table(sequence))

    def _holds(self, sequence: SequenceLike) -> bool:
        return sequence.request_id in self.block_tables or sequence.request_id in self.cpu_block_tables

    def _home(self, sequence: SequenceLike) -> tuple[dict[str, list[KVCacheBlock]], BlockAllocator]:
        """The tables and the pool where the sequence is."""
        if sequence.request_id in self.block_tables:
            return self.block_tables, self.gpu_allocator
        if sequence.request_id in self.cpu_block_tables:
            return self.cpu_block_tables, self.cpu_allocator
        raise ValueError(
            f"sequence {sequence.request_id!r} holds no blocks: it is unknown here, is finished, or was freed before"
        )

    def _table(self, sequence: SequenceLike) -> list[KVCacheBlock]:
        tables, _ = self._home(sequence)
        if tables is self.cpu_block_tables:
            raise ValueError(f"sequence {sequence.request_id!r} is swapped out; it has to be swapped in first")
        return tables[sequence.request_id]

    @staticmethod
    def _tables_of(group: GroupLike, tables: dict[str, list[KVCacheBlock]]) -> list[list[KVCacheBlock]]:
        return [tables[s.request_id] for s in group.get_seqs() if s.request_id in tables]


def _distinct(tables: list[list[KVCacheBlock]]) -> set[KVCacheBlock]:
    return {block for table in tables for block in table}
