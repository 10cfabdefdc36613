"""Chapter 05's ladder in WGSL, each rung against numpy."""

import numpy as np
import pytest
import torch

SIZES = [(1, 16), (4, 24), (16, 64), (128, 256)]  # block size, head size


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("length", [1, 64, 100])
def test_copy(run, length):
    source = normal(np.random.default_rng(0), length)
    room, groups = np.zeros(length + 9, np.float32), (-(-length // 64),)
    found = run("ladder1_copy", dict(LENGTH=length, PIECE=64), groups, source, room)[1]
    assert np.array_equal(found[:length], source) and not found[length:].any()


def one_head(rng, block_size, head_size, length):
    """K of one head in a pool that is NaN where nothing was written, its table, and K in order."""
    blocks = -(-length // block_size)
    table = rng.permutation(blocks + 2)[:blocks].astype(np.uint32)
    pool, k = np.full((blocks + 2, block_size, head_size), np.nan, np.float32), normal(rng, length, head_size)
    position = np.arange(length)
    pool[table[position // block_size], position % block_size] = k
    return pool, table, k


@pytest.mark.parametrize("block_size, head_size", SIZES)
def test_gather_and_scores(run, block_size, head_size):
    rng = np.random.default_rng(block_size)
    length = 2 * block_size + 1
    pool, table, k = one_head(rng, block_size, head_size, length)
    constants = dict(BLOCK_SIZE=block_size, HEAD_SIZE=head_size)
    found = run("ladder2_gather", constants | dict(LANES=64), (length,), pool, table, np.zeros_like(k))[2]
    assert np.array_equal(found, k)
    query, scores = normal(rng, head_size), np.zeros(length, np.float32)
    constants |= dict(LENGTH=length, SCALE=0.125)
    found = run("ladder3_scores", constants, (len(table),), query, pool, table, scores)[3]
    assert np.allclose(found, k.astype(np.float64) @ query * 0.125, atol=1e-5)


@pytest.mark.parametrize("length", [1, 16, 17, 200])
def test_online_softmax(run, length):
    scores = 8 * normal(np.random.default_rng(length), length)
    found = run("ladder4_softmax", dict(LENGTH=length, PIECE=16), (1,), scores, np.zeros(2, np.float32))[1]
    wanted = np.exp(scores.astype(np.float64) - scores.max()).sum()
    assert found[0] == scores.max() and abs(found[1] / wanted - 1) < 1e-5


@pytest.mark.parametrize("number", ["float32", "float16"])
@pytest.mark.parametrize("block_size, head_size", SIZES)
def test_decode_and_its_diary(run, gpu, block_size, head_size, number):
    if number == "float16" and not gpu.has_f16:
        pytest.skip("this machine's adapter has no numbers of 16 bits")
    rng = np.random.default_rng(head_size)
    kv_heads, group, lengths = 2, 3, [1, 2 * block_size + 1, 37]
    width = max(-(-n // block_size) for n in lengths)
    blocks = 3 * width + 2
    ids = rng.permutation(blocks)[: 3 * width].reshape(3, width).astype(np.uint32)
    key, value = np.full((2, blocks, block_size, kv_heads, head_size), np.nan, number)
    query = normal(rng, 3, kv_heads * group, head_size)
    wanted, tops = np.empty(query.shape), np.empty((3, kv_heads * group))
    for r, n in enumerate(lengths):
        where = ids[r, np.arange(n) // block_size], np.arange(n) % block_size
        key[where], value[where] = k, v = normal(rng, 2, n, kv_heads, head_size).astype(number)
        for head in range(kv_heads * group):
            score = k[:, head // group].astype(np.float64) @ query[r, head] * head_size**-0.5
            weight = np.exp(score - score.max())
            wanted[r, head], tops[r, head] = weight @ v[:, head // group] / weight.sum(), score.max()
    constants = dict(BLOCK_SIZE=block_size, GROUP=group, QUERY_HEADS=kv_heads * group, HEAD_SIZE=head_size, TABLE=width,
                     SCALE=head_size**-0.5, DIARY=1)  # fmt: skip
    diary = np.zeros((3, kv_heads * group, width, 4), np.uint32)
    found = run("ladder5_decode", constants, (kv_heads * group, 3), query, key, value, ids,
                np.array(lengths, np.uint32), np.zeros_like(query), diary, number=number)  # fmt: skip
    assert np.abs(found[5] - wanted).max() < 5e-6
    for r, n in enumerate(lengths):
        used = -(-n // block_size)
        pages = found[6][r, :, :used]
        assert np.array_equal(pages[..., 0], np.broadcast_to(ids[r, :used], pages.shape[:2]))
        heads = np.arange(kv_heads * group)[:, None] // group
        assert np.array_equal(pages[..., 1], (pages[..., 0] * block_size * kv_heads + heads) * head_size)
        largest = pages[..., 2].copy().view(np.float32)
        assert (np.diff(largest) >= 0).all() and np.abs(largest[:, -1] - tops[r]).max() < 1e-5
        assert not found[6][r, :, used:].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_lesson_starts_them_as_it_does_those_in_triton(gpu, dtype):
    """Heads and layers are views, and stay where they are; what comes back is of the same type."""
    from pagedlab.attention import LayerKV
    from pagedlab.kernels.wgsl.ladder import copy, decode, gather, online_softmax, scores

    torch.manual_seed(0)
    length, table, scale = 40, torch.tensor([3, 1, 5], dtype=torch.int32), 0.25
    pool, query = torch.randn(6, 2, 16, 3, 32).to(dtype), torch.randn(1, 6, 32).to(dtype)
    layer = LayerKV(pool[:, 0], pool[:, 1])
    k, v = (part[table.long()].flatten(0, 1)[:length].float() for part in (layer.key, layer.value))
    assert torch.equal(gather(layer.key[:, :, 1], table, length).float(), k[:, 1])
    assert scores(query[0, 2], layer.key[:, :, 1], table, length, scale).allclose(k[:, 1] @ query[0, 2].float() * scale,
                                                                                  atol=1e-5)  # fmt: skip
    everything = torch.einsum("hd,thd->ht", query[0].float(), k.repeat_interleave(2, 1)) * scale
    diary = torch.zeros(1, 6, 3, 4, dtype=torch.float64)
    found = decode(query, layer, table[None], torch.tensor([length], dtype=torch.int32), scale, diary)
    wanted = torch.einsum("ht,thd->hd", everything.softmax(1), v.repeat_interleave(2, 1))
    assert found.dtype == dtype and found[0].float().allclose(wanted, atol={torch.float32: 1e-5}.get(dtype, 1e-2))
    assert diary[0, :, :, 0].tolist() == 6 * [[3, 1, 5]]
    for row, (largest, total) in zip(everything, diary[0, :, -1, 2:].tolist(), strict=True):
        assert online_softmax(row) == pytest.approx((largest, total), rel=1e-4)
    room = torch.full((128,), -1.0, dtype=dtype)
    copy(torch.arange(100).to(dtype), room)
    assert room.tolist() == [*range(100), *[-1] * 28]
