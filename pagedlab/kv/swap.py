"""Memory is full and somebody has to go: carry the bytes away, or compute them again later?

**Swap** moves a victim's blocks to a second pool in the CPU's memory, and back when there is room. A sequence needs all
of its K and V for each token, so it moves whole: all blocks or none; and the sequences of one request move together,
since they share blocks. A shared block moves once, and is shared again where it arrives.

**Recomputation** throws the bytes away. The tokens are known, so one prefill over them makes the same K and V again,
up to rounding. Nothing is stored meanwhile, and a prefill does many tokens at once, so it is cheaper than the decoding
was.

Which costs less is above all a matter of two figures of the machine: how fast bytes move between device and CPU, and
how fast a prefill runs. Swapping costs bytes (twice: out and in), and something for each block that is moved, so small
blocks hurt it; recomputation does not care about blocks. :class:`SwapCost` and :class:`RecomputeCost` say it in
seconds; ``pagedlab bench preemption`` measures their constants, and how well they predict.

Source: the paper, sections 4.5 and 7.3; vLLM v0.2.0 ``core/block_manager.py``, ``swap_out`` and ``swap_in``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagedlab.kv.block import KVCacheBlock
from pagedlab.kv.cow import Allocator


def move_tables(
    tables: Sequence[list[KVCacheBlock]], origin: Allocator, target: Allocator
) -> tuple[list[list[KVCacheBlock]], dict[int, int]]:
    """Move all blocks of ``tables`` (of one request's sequences) from one pool to the other.

    Returns the new tables and the mapping {block there before: block there now}, in the order moved: what the engine
    has to copy. The caller has seen to it that ``target`` has room for all of them. Blocks that several tables hold
    move once.
    """
    moved: dict[KVCacheBlock, KVCacheBlock] = {}
    new_tables = []
    for table in tables:
        new_table = []
        for block in table:
            if block in moved:
                moved[block].ref_cnt += 1
            else:
                moved[block] = target.allocate()
            new_table.append(moved[block])
            origin.free(block)
        new_tables.append(new_table)
    return new_tables, {old.block_id: new.block_id for old, new in moved.items()}


# ------------------------------------------------------------------------------------------------ what it costs


@dataclass(frozen=True)
class SwapCost:
    """What it takes to carry blocks away and back. ``seconds_per_move``: of one batch of copies, whatever is in it
    (starting it, waiting for it); ``seconds_per_block``: of each block in it (to find it and start on it);
    ``bytes_per_second``: of the bytes, ``math.inf`` where they cost nothing besides."""

    bytes_per_token: int
    bytes_per_second: float
    seconds_per_block: float = 0.0
    seconds_per_move: float = 0.0

    def seconds(self, num_tokens: int, block_size: int) -> float:
        """Out and in again, of a sequence of ``num_tokens``. The last block moves whole, however little is in it."""
        blocks = -(-num_tokens // block_size)
        num_bytes = blocks * block_size * self.bytes_per_token
        return 2 * (self.seconds_per_move + blocks * self.seconds_per_block + num_bytes / self.bytes_per_second)


@dataclass(frozen=True)
class RecomputeCost:
    """What it takes to compute tokens again in one prefill. ``seconds_per_step``: of a step, however short;
    ``seconds_per_pair``: of a token looking back at one other, which is what makes a long prefill slower than its
    length says."""

    tokens_per_second: float
    seconds_per_step: float = 0.0
    seconds_per_pair: float = 0.0

    def seconds(self, num_tokens: int) -> float:
        """Of a sequence of ``num_tokens``, whatever the block size."""
        pairs = num_tokens * (num_tokens + 1) / 2
        return self.seconds_per_step + num_tokens / self.tokens_per_second + pairs * self.seconds_per_pair


def cheaper(swap: SwapCost, recompute: RecomputeCost, num_tokens: int, block_size: int) -> str:
    """ "swap" or "recompute", whichever is predicted to take less time."""
    return "swap" if swap.seconds(num_tokens, block_size) <= recompute.seconds(num_tokens) else "recompute"


def crossover(swap: SwapCost, recompute: RecomputeCost, block_size: int, longest: int) -> int | None:
    """The smallest length from 1 to ``longest`` tokens at which the other way is cheaper than at 1 token; None where
    there is none."""
    at_first = cheaper(swap, recompute, 1, block_size)
    for num_tokens in range(2, longest + 1):
        if cheaper(swap, recompute, num_tokens, block_size) != at_first:
            return num_tokens
    return None
