"""Swap moves all or nothing, shared blocks once; and the cost model says in seconds what it was told in bytes."""

from __future__ import annotations

import pytest

from pagedlab.kv.block import block_ids
from pagedlab.kv.cow import fork_table
from pagedlab.kv.paper import BlockAllocator
from pagedlab.kv.swap import RecomputeCost, SwapCost, cheaper, crossover, move_tables


def test_a_shared_block_moves_once_and_is_shared_again_where_it_arrives():
    gpu, cpu = BlockAllocator(8), BlockAllocator(8)
    parent = [gpu.allocate() for _ in range(3)]
    child = fork_table(parent[:2]) + [gpu.allocate()]
    old = block_ids(parent), block_ids(child)
    (new_parent, new_child), mapping = move_tables([parent, child], gpu, cpu)
    assert list(mapping) == [*old[0], old[1][2]]  # in table order, each once
    assert block_ids(new_parent) == [mapping[b] for b in old[0]]
    assert block_ids(new_child) == [mapping[b] for b in old[1]]
    assert [b.ref_cnt for b in new_parent] == [2, 2, 1]
    assert gpu.get_num_free_blocks() == 8 and all(b.ref_cnt == 0 for b in gpu.blocks)


def test_there_and_back_gives_tables_of_the_same_shape():
    gpu, cpu = BlockAllocator(8), BlockAllocator(4)
    tables = [[gpu.allocate() for _ in range(2)]]
    tables.append(fork_table(tables[0]))
    away, out = move_tables(tables, gpu, cpu)
    back, in_again = move_tables(away, cpu, gpu)
    assert back[0] == back[1] and [b.ref_cnt for b in back[0]] == [2, 2]
    assert sorted(out.values()) == sorted(in_again) and cpu.get_num_free_blocks() == 4


def test_swapping_costs_bytes_twice_and_whole_blocks():
    cost = SwapCost(bytes_per_token=100, bytes_per_second=1000)
    assert cost.seconds(16, 16) == pytest.approx(2 * 1.6)
    assert cost.seconds(17, 16) == pytest.approx(2 * 3.2)
    assert cost.seconds(17, 1) == pytest.approx(2 * 1.7)


def test_small_blocks_make_swapping_dearer_and_recomputation_does_not_care():
    swap = SwapCost(bytes_per_token=100, bytes_per_second=1e6, seconds_per_block=1e-3)
    seconds = [swap.seconds(256, size) for size in (1, 4, 16, 64)]
    assert seconds == sorted(seconds, reverse=True)
    recompute = RecomputeCost(tokens_per_second=2000)
    assert [cheaper(swap, recompute, 256, size) for size in (1, 16)] == ["recompute", "swap"]


def test_the_crossover_is_the_first_length_at_which_the_other_way_is_cheaper():
    swap = SwapCost(bytes_per_token=1, bytes_per_second=1000, seconds_per_move=0.1)
    recompute = RecomputeCost(tokens_per_second=100, seconds_per_step=0.05)
    at = crossover(swap, recompute, 1, 1000)
    assert at is not None
    assert cheaper(swap, recompute, at - 1, 1) == "recompute" and cheaper(swap, recompute, at, 1) == "swap"
    assert crossover(swap, RecomputeCost(tokens_per_second=1e9), 1, 1000) is None
