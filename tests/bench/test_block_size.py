"""What chapter 11 measures is measured on right results."""

import pytest
import torch

from pagedlab.attention import paged_attention
from pagedlab.bench.block_size import by_block, contiguous, indirection, memory_costs, reading_costs, scattered

torch.set_num_threads(1)


@pytest.mark.parametrize("block_size", [1, 4, 16, 64])
def test_block_by_block_contiguous_and_paged_attention_agree(block_size):
    query, (key, value) = torch.randn(1, 9, 64), torch.randn(2, 128, 3, 64)
    layer, table = scattered(key, value, block_size)
    assert sorted(table.tolist()) != table.tolist() or len(table) < 3
    lengths, starts = torch.tensor([128], dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    paged = paged_attention(query, layer, table[None], lengths, starts)
    torch.testing.assert_close(contiguous(query, key, value), paged, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(by_block(query[0], layer, table.tolist(), 128), paged[0], atol=1e-5, rtol=1e-4)


def test_larger_blocks_leave_more_slots_empty_and_make_shorter_tables():
    costs = memory_costs([(30, 40), (5, 60), (100, 9)] * 8, num_slots=512, block_sizes=(1, 16, 128), rounds=1)
    assert costs[1].empty == 0 < costs[16].empty < costs[128].empty
    assert costs[1].entries > costs[16].entries > costs[128].entries
    assert costs[1].running > costs[128].running
    assert all(cost.seconds > 0 for cost in costs.values())


def test_reading_is_measured_at_each_block_size():
    base, costs = reading_costs(64, block_sizes=(4, 16), rounds=2)
    assert base > 0 and set(costs) == {4, 16}
    assert all(0 < t < 60 for cost in costs.values() for t in (cost.engine, cost.by_block, cost.gather))
    assert set(indirection(64, rounds=2)) == {"contiguous", "look up", "gather", "attend"}


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="no whole number of blocks of 16"):
        memory_costs([(5, 5)], num_slots=100, block_sizes=(4, 16))
    with pytest.raises(ValueError, match="no whole number of blocks of 16"):
        reading_costs(40, block_sizes=(8, 16))
    with pytest.raises(ValueError, match="nobody ever waited"):
        memory_costs([(5, 5)], num_slots=64, block_sizes=(4,), rounds=1)
