"""How do two sequences use one block, and what happens when one of them writes?

Parallel sampling and beam search start many sequences from one prompt. Up to the point where they part, their K and V
are the same bytes. So a child does not copy them: it copies its parent's *block table*, and each block counts one more
owner. That is ``fork()`` as in Linux, where a child process gets its parent's page table and no page is copied.

Reading a shared block is safe. Writing is not: the next token of each sequence is another one, and both would go to the
same slot of the same block, the last one, where it is not full. So the writer looks first. Where somebody else holds
the block too, it takes a new block, which its table names from then on (**retarget**), and has the old one's bytes
copied there (**copy**); then it writes. The others see nothing of it. The last one that is left with the old block
finds ``ref_cnt`` 1 and writes in place: of n sequences that share a tail, n - 1 copy.

A full block is never written again, and so never copied: each fork leads to the copy of one block at most.

These are the rules only, on plain tables; ``paper.py`` keeps the tables, and the engine moves the bytes.

Source: the paper (Kwon et al., SOSP 2023), sections 4.3 and 4.4; vLLM v0.2.0 ``core/block_manager.py``, ``fork`` and
``append_slot``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pagedlab.kv.block import KVCacheBlock


class Allocator(Protocol):
    """Where blocks come from and go to (``paper.BlockAllocator`` is one)."""

    def allocate(self) -> KVCacheBlock: ...

    def free(self, block: KVCacheBlock) -> None: ...


def fork_table(table: Sequence[KVCacheBlock]) -> list[KVCacheBlock]:
    """The child's table: the same blocks, the partly filled last one included, each with one owner more."""
    for block in table:
        block.ref_cnt += 1
    return list(table)


def append_slot(
    table: list[KVCacheBlock], num_tokens: int, block_size: int, allocator: Allocator
) -> tuple[int, int] | None:
    """Make the slot of a sequence's last token (at position ``num_tokens - 1``) its own to write.

    A new block is appended where the table is too short. Where the last block is shared, ``table`` is retargeted to a
    new one and ``(source, destination)`` is returned: the bytes of block ``source`` have to be copied to
    ``destination`` before the token is written. Else None. Raises ValueError, and changes nothing, where the token is
    not the next one, or no block is free.
    """
    room = len(table) * block_size
    if not room - block_size < num_tokens <= room + 1:
        raise ValueError(
            f"a table of {len(table)} blocks of {block_size} can take the tokens number {room - block_size + 1} to "
            f"{room + 1}, "
            f"one at a time; number {num_tokens} is none of them"
        )
    if num_tokens > room:
        table.append(allocator.allocate())
        return None
    last = table[-1]
    if last.ref_cnt == 1:
        return None
    new = allocator.allocate()
    table[-1] = new
    allocator.free(last)  # one owner less; it does not become free, for somebody else holds it
    return last.block_id, new.block_id


def common_blocks(sequences: Sequence[Sequence[int]], block_size: int) -> list[tuple[int, int]]:
    """Which full blocks can sequences share that come back together after a recomputation?

    ``sequences``: the token ids of each. For each one: (an earlier sequence, how many of its leading blocks hold the
    same tokens). The block of the last token is left out: its logits are needed, so it is computed, and what is written
    to must not be shared.
    """
    found = []
    for i, tokens in enumerate(sequences):
        most, best = (len(tokens) - 1) // block_size, (0, 0)
        for j in range(i):
            other, count = sequences[j], 0
            limit = min(most, (len(other) - 1) // block_size)
            while (
                count < limit
                and tokens[count * block_size : (count + 1) * block_size]
                == other[count * block_size : (count + 1) * block_size]
            ):
                count += 1
            if count > best[1]:
                best = (j, count)
        found.append(best)
    return found
