"""The ladder: each small kernel does what its file says, at whole pieces and in between."""

import pytest
import torch
from batches import Batch

from pagedlab.kernels.ladder1_copy import copy
from pagedlab.kernels.ladder2_gather import gather
from pagedlab.kernels.ladder3_dot import scores
from pagedlab.kernels.ladder4_softmax import online_softmax


@pytest.mark.parametrize("length", [1, 63, 64, 65, 100])
def test_the_masked_copy_copies_everything_and_nothing_more(length):
    source = torch.randn(length)
    assert torch.equal(copy(source), source)


@pytest.mark.parametrize("length", [1, 4, 9])
def test_the_gather_brings_a_scattered_request_into_order(length):
    batch = Batch([length], [1], block_size=4, head_size=80)
    result = gather(batch.layer.key[:, :, 1], batch.block_tables[0], length)
    assert torch.equal(result, batch.keys[0][:, 1])


@pytest.mark.parametrize("block_size", [3, 4, 16])
def test_the_scores_are_the_dot_products_of_the_query_with_each_key(block_size):
    batch = Batch([21], [1], block_size=block_size, head_size=96)
    result = scores(batch.query[0, 0], batch.layer.key[:, :, 0], batch.block_tables[0], 21, 0.5)
    torch.testing.assert_close(result, batch.keys[0][:, 0] @ batch.query[0, 0] * 0.5, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("length", [1, 16, 50])
def test_the_online_softmax_finds_the_largest_and_the_sum_in_one_pass(length):
    score = torch.randn(length) * 30
    largest, total = online_softmax(score)
    assert largest == score.max()
    assert total == pytest.approx(float((score - score.max()).exp().sum()), rel=1e-5)
