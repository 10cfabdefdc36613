"""The attending kernels against float64 reference attention, in Triton's interpreter.

Memory that nobody wrote is NaN, table entries past a length are ids that no pool has, and outputs are poisoned before
the kernel runs: whatever is read or left out wrongly shows.
"""

import pytest
import torch
from batches import Batch, tolerance
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagedlab.attention import KVPool, LayerKV, for_all_layers, paged_attention
from pagedlab.attention.write import for_all_layers as write_in_all_layers
from pagedlab.errors import PagedlabError
from pagedlab.kernels import ladder5_decode
from pagedlab.kernels.run import decode, prefill
from pagedlab.kernels.rungs import RUNGS
from pagedlab.kernels.tuning import Tuning

HEAD_SIZES = [32, 64, 72, 80, 96, 104, 120, 128, 256]
BLOCK_SIZES = [1, 2, 3, 4, 8, 16, 24, 32, 64, 128, 256]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]

# The interpreter takes milliseconds for each operation of each program, so contexts stay short; what a tile, a block
# and a part of a split do at their edges does not depend on how many came before.
slow = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def poisoned_outputs(monkeypatch):
    """`torch.empty_like` and `new_empty` hand out NaN, so that an element that the kernel does not write is found."""

    def poisoned(make):
        def made(*args, **kwargs):
            tensor = make(*args, **kwargs)
            return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

        return made

    monkeypatch.setattr(torch, "empty_like", poisoned(torch.empty_like))
    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned(torch.Tensor.new_empty))


def shapes(contexts):
    """A strategy for everything about a batch but its lengths; Batch's keyword arguments."""
    return st.fixed_dictionaries(
        dict(
            block_size=st.sampled_from(BLOCK_SIZES), head_size=st.sampled_from(HEAD_SIZES),
            kv_heads=st.sampled_from([1, 2, 3]), dtype=st.sampled_from(DTYPES), hnd=st.booleans(), seed=st.integers(0,
            999),
        )
    )  # fmt: skip


def lengths(block_size, draw, most=3):
    """Context lengths, with 1 and whole numbers of blocks among the likely ones."""
    near_edges = [n for n in (1, block_size, block_size + 1, 2 * block_size, 64, 65) if n <= 200]
    return draw(st.lists(st.one_of(st.integers(1, 150), st.sampled_from(near_edges)), min_size=1, max_size=most))


options = st.fixed_dictionaries(
    dict(sliding_window=st.sampled_from([None, None, 1, 5, 64]), soft_cap=st.sampled_from([None, None, 2.0, 30.0]))
)
group_sizes = st.sampled_from([1, 2, 3, 4, 7, 8, 16])


@slow
@given(st.data(), shapes(None), group_sizes, options, st.sampled_from([1, 2, 3, 8]), st.sampled_from([16, 64]))
def test_decode_in_one_pass_or_split_equals_the_reference(data, shape, group, options, splits, tile):
    contexts = lengths(shape["block_size"], data.draw)
    batch = Batch(contexts, [1] * len(contexts), query_heads=shape["kv_heads"] * group, **shape)
    expected = paged_attention(*batch.arguments, backend="reference", **options)
    result = decode(*batch.arguments, shape["head_size"] ** -0.5, **options, splits=splits, tuning=Tuning(tile, 4, 1))
    torch.testing.assert_close(result, expected, **tolerance(shape["dtype"]))


@slow
@given(st.data(), shapes(None), group_sizes, options)
def test_prefill_of_ragged_batches_with_cached_prefixes_equals_the_reference(data, shape, group, options):
    contexts = lengths(shape["block_size"], data.draw)
    queries = [data.draw(st.one_of(st.just(1), st.just(c), st.integers(0, c))) for c in contexts]
    if sum(queries) == 0:
        queries[-1] = 1
    batch = Batch(contexts, queries, query_heads=shape["kv_heads"] * group, **shape)
    expected = paged_attention(*batch.arguments, backend="reference", **options)
    result = prefill(*batch.arguments, shape["head_size"] ** -0.5, **options)
    torch.testing.assert_close(result, expected, **tolerance(shape["dtype"]))


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("head_size", HEAD_SIZES)
def test_every_head_size_and_block_size_decodes_and_prefills(head_size, block_size):
    batch = Batch([70, block_size], [1, 1], head_size=head_size, block_size=block_size, query_heads=3, kv_heads=1)
    expected = paged_attention(*batch.arguments, backend="reference")
    for run in (decode, prefill):
        torch.testing.assert_close(run(*batch.arguments, head_size**-0.5), expected, **tolerance(torch.float32))


@pytest.mark.parametrize("group", range(1, 17))
def test_every_group_size_decodes_and_prefills(group):
    batch = Batch([20, 5], [3, 1], query_heads=group, kv_heads=1, head_size=32)
    expected = paged_attention(*batch.arguments, backend="reference")
    torch.testing.assert_close(
        paged_attention(*batch.arguments, backend="triton"), expected, **tolerance(torch.float32)
    )
    batch = Batch([20, 5], [1, 1], query_heads=group, kv_heads=1, head_size=32)
    expected = paged_attention(*batch.arguments, backend="reference")
    torch.testing.assert_close(
        paged_attention(*batch.arguments, backend="triton"), expected, **tolerance(torch.float32)
    )


def test_a_request_without_queries_is_left_out_by_decode_and_prefill():
    for queries in ([1, 0, 2], [1, 0, 1]):
        batch = Batch([20, 30, 40], queries)
        expected = paged_attention(*batch.arguments, backend="reference")
        torch.testing.assert_close(
            paged_attention(*batch.arguments, backend="triton"), expected, **tolerance(torch.float32)
        )


def test_a_split_step_with_an_empty_place_of_a_captured_graph_is_right():
    batch = Batch([90, 16, 40], [1, 0, 2])
    expected = paged_attention(*batch.arguments, backend="reference")
    torch.testing.assert_close(decode(*batch.arguments, 1 / 8, splits=3), expected, **tolerance(torch.float32))


def test_contiguous_addressing_reads_only_the_first_table_entry():
    batch = Batch([100, 33], [1, 1], scattered=False)
    batch.block_tables[:, 1:] = 2**31 - 1
    result = decode(*batch.arguments, 1 / 8, paged=False)
    batch.block_tables[0, :7], batch.block_tables[1, :3] = torch.arange(7), torch.arange(7, 10)
    torch.testing.assert_close(result, decode(*batch.arguments, 1 / 8), atol=0, rtol=0)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
@pytest.mark.parametrize("block_size, dtype", [(16, torch.float32), (5, torch.float32), (16, torch.bfloat16)])
def test_every_rung_on_the_way_gives_the_same_numbers(rung, block_size, dtype):
    for head_size in (64, 72):
        heads = dict(query_heads=6, kv_heads=2, head_size=head_size)
        batch = Batch([70, 1, 32], [1, 1, 1], block_size=block_size, dtype=dtype, **heads)
        expected = paged_attention(*batch.arguments, scale=1 / 8, backend="reference")
        torch.testing.assert_close(rung.run(*batch.arguments, 1 / 8), expected, **tolerance(dtype))


def test_the_plain_kernels_diary_says_where_it_read_and_how_the_softmax_grew():
    batch = Batch([9], [1], block_size=4, query_heads=2, kv_heads=1)
    diary = torch.full((1, 2, 3, 4), -1.0, dtype=torch.float64)
    ladder5_decode.decode(batch.query, batch.layer, batch.block_tables, batch.seq_lens, 1 / 8, diary)
    assert diary[0, 0, :, 0].tolist() == batch.block_tables[0, :3].tolist()
    assert diary[0, 1, :, 1].tolist() == [b * batch.layer.key.stride(0) for b in batch.block_tables[0, :3].tolist()]
    score = (batch.keys[0][:, 0] @ batch.query[0, 1] / 8).double()
    for line, seen in zip(diary[0, 1], (4, 8, 9), strict=True):
        largest = score[:seen].max()
        torch.testing.assert_close(
            line[2:], torch.stack([largest, (score[:seen] - largest).exp().sum()]), atol=1e-5, rtol=1e-5
        )


def test_a_pool_of_more_than_two_to_the_31_elements_is_addressed_right(monkeypatch):
    # When a kernel ends, the interpreter copies every storage back to where it came from: here onto itself, all 9 GiB.
    copy = torch.UntypedStorage.copy_
    monkeypatch.setattr(
        torch.UntypedStorage, "copy_", lambda to, source: to if to.data_ptr() == source.data_ptr() else copy(to, source)
    )
    # 2**31 elements of K alone: untouched pages of zeros cost nothing, so this needs no 9 GiB.
    blocks, block_size, heads, head_size = 2**31 // (256 * 4 * 256) + 2, 256, 4, 256
    pool = KVPool(1, blocks, block_size, heads, head_size, torch.float16)
    layer = pool.layer(0)
    assert layer.key[-1].storage_offset() > 2**31
    table = torch.tensor([[blocks - 1, 0]], dtype=torch.int32)
    tokens = 258
    key, value, query = torch.randn(3, tokens, heads, head_size, dtype=torch.float16)
    slots = torch.tensor([*range((blocks - 1) * block_size, blocks * block_size), 0, 1])
    layer.write(key, value, slots, backend="triton")
    assert torch.equal(layer.key[-1], key[:256]) and torch.equal(layer.value[0, :2], value[256:])
    for queries, run in ((1, decode), (2, prefill)):
        lengths = torch.tensor([tokens], dtype=torch.int32), torch.tensor([0, queries], dtype=torch.int32)
        arguments = (query[:queries], layer, table, *lengths)
        expected = paged_attention(*arguments, backend="reference")
        torch.testing.assert_close(run(*arguments, 1 / 16), expected, **tolerance(torch.float16))


def test_the_same_numbers_come_from_any_strides():
    batch = Batch([40, 17], [3, 1], kv_heads=2, query_heads=4)
    wide = torch.randn(4, 4, 192)
    wide[:, :, :64] = batch.query
    padded = LayerKV(
        *(
            torch.cat([t, torch.full_like(t, float("nan"))], dim=-1)[..., :64]
            for t in (batch.layer.key, batch.layer.value)
        )
    )
    arguments = (wide[:, :, :64], padded, *batch.arguments[2:])
    assert not arguments[0].is_contiguous() and not padded.key.is_contiguous()
    expected = paged_attention(*batch.arguments, backend="triton")
    torch.testing.assert_close(paged_attention(*arguments, backend="triton"), expected, atol=0, rtol=0)


def test_a_step_that_runs_on_kernels_checks_at_its_first_layer_and_gives_what_single_calls_give(monkeypatch):
    """As the engine does on a GPU; here the interpreter stands for it."""
    monkeypatch.setattr("pagedlab.attention.backends.choose_backend", lambda backend, device: backend or "triton")
    one, other = Batch([40, 20], [3, 1], seed=1), Batch([40, 20], [3, 1], seed=1)
    other.layer.value.add_(1)
    attend = for_all_layers(one.layer, *one.arguments[2:])
    for batch in (one, other):
        expected = paged_attention(*batch.arguments, backend="reference")
        torch.testing.assert_close(attend(batch.query, batch.layer), expected, **tolerance(torch.float32))
    slots, key = torch.tensor([3, -1, 20]), torch.randn(3, 2, 64)
    write = write_in_all_layers(one.layer, slots)
    for batch in (one, other):
        write(batch.layer, key, key + 1)
        assert torch.equal(batch.layer.key[0, 3], key[0]) and torch.equal(batch.layer.value[1, 4], key[2] + 1)
    with pytest.raises(PagedlabError, match="slots go from 0"):
        write_in_all_layers(one.layer, torch.tensor([10_000]))
    one.block_tables[0, 0] = -1
    with pytest.raises(PagedlabError, match="physical block -1"):
        for_all_layers(one.layer, *one.arguments[2:])(one.query, one.layer)
