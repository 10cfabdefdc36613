"""The kernels that move K and V: new tokens into slots, whole blocks inside the pool and out of it."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagedlab.attention import KVPool, LayerKV
from pagedlab.errors import PagedlabError
from pagedlab.kernels.move_blocks import copy_blocks, gather_blocks, move_blocks, scatter_blocks

some = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
dtypes = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
block_sizes = st.sampled_from([1, 2, 3, 16, 24, 256])
head_sizes = st.sampled_from([32, 64, 80, 96, 128, 256])


@some
@given(block_sizes, head_sizes, st.integers(1, 5), dtypes, st.integers(0, 20), st.booleans(), st.integers(0, 99))
def test_writing_with_triton_leaves_the_pool_as_writing_with_torch_does(
    block_size, head_size, heads, dtype, tokens, hnd, seed
):
    rng = torch.Generator().manual_seed(seed)
    blocks = 20 // block_size + 2
    slots = torch.randperm(blocks * block_size, generator=rng)[:tokens]
    slots[torch.rand(tokens, generator=rng) < 0.3] = -1
    # Keys as a model hands them over: slices of one wider tensor.
    both = torch.randn(tokens, 2, heads, head_size, generator=rng).to(dtype)
    pools = []
    for backend in ("triton", "torch"):
        data = torch.full((2, blocks, heads, block_size, head_size), float("nan"), dtype=dtype)
        if hnd:
            layer = LayerKV(data[0].transpose(1, 2), data[1].transpose(1, 2))
        else:
            layer = LayerKV(*data.view(2, blocks, block_size, heads, head_size))
        layer.write(both[:, 0], both[:, 1], slots, backend=backend)
        pools.append(data)
    torch.testing.assert_close(*pools, equal_nan=True, atol=0, rtol=0)


@some
@given(block_sizes, st.sampled_from([8, 32, 80]), dtypes, st.integers(1, 4), st.integers(0, 99))
def test_copying_gathering_and_scattering_blocks_equals_torch_indexing(block_size, head_size, dtype, count, seed):
    rng = torch.Generator().manual_seed(seed)
    pool = KVPool(2, 9, block_size, 2, head_size, dtype)
    pool.data.copy_(torch.randn(pool.data.shape, generator=rng))
    ids = torch.randperm(9, generator=rng)
    source, destination = ids[:count], ids[count : 2 * count]

    expected = pool.data.clone()
    expected[:, :, destination] = expected[:, :, source]
    copy_blocks(pool.data, list(zip(source.tolist(), destination.tolist(), strict=True)))
    assert torch.equal(pool.data, expected)

    buffer = gather_blocks(pool.data, source)
    assert torch.equal(buffer, expected[:, :, source])

    back = torch.randn(buffer.shape, generator=rng).to(dtype)
    expected[:, :, destination] = back
    scatter_blocks(pool.data, destination, back)
    assert torch.equal(pool.data, expected)


def test_swapping_out_and_in_to_other_blocks_keeps_every_number():
    pool = KVPool(3, 8, 16, 2, 64)
    pool.data.normal_()
    before = pool.data[:, :, [6, 1]].clone()
    on_cpu = gather_blocks(pool.data, torch.tensor([6, 1])).cpu()
    pool.data[:, :, [6, 1]] = float("nan")
    scatter_blocks(pool.data, torch.tensor([0, 7]), on_cpu)
    assert torch.equal(pool.data[:, :, [0, 7]], before)


def test_moving_nothing_is_allowed_and_tensors_that_do_not_fit_are_refused():
    pool, other = KVPool(2, 4, 4, 2, 32), KVPool(2, 4, 8, 2, 32)
    none = torch.tensor([], dtype=torch.int64)
    move_blocks(pool.data, pool.data, none, none)
    one = torch.tensor([1])
    with pytest.raises(PagedlabError, match="only the number of blocks may differ"):
        move_blocks(pool.data, other.data, one, one)
    with pytest.raises(PagedlabError, match="must be contiguous"):
        move_blocks(pool.data.transpose(3, 4), pool.data, one, one)
