"""paged_attention: what it promises on a CPU, for both back ends that need no Triton."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from batches import Batch, tolerance
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedlab.attention import KVPool, LayerKV, for_all_layers, paged_attention
from pagedlab.attention.torch_backend import _groups
from pagedlab.attention.write import for_all_layers as write_in_all_layers
from pagedlab.errors import PagedlabError

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "contexts, queries", [([37], [37]), ([37], [5]), ([37], [1]), ([16], [1]), ([1], [1]), ([48, 3], [48, 3])]
)
def test_the_reference_equals_attention_over_contiguous_memory(contexts, queries, dtype):
    batch = Batch(contexts, queries, dtype=dtype)
    result = paged_attention(*batch.arguments, backend="reference")
    start = 0
    for context, count, key, value in zip(contexts, queries, batch.keys, batch.values, strict=True):
        q = batch.query[start : start + count].double().transpose(0, 1)
        k, v = (x.double().transpose(0, 1).repeat_interleave(2, dim=0) for x in (key, value))
        mask = torch.ones(count, context, dtype=torch.bool).tril(context - count)
        expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(0, 1)
        torch.testing.assert_close(result[start : start + count].double(), expected, **tolerance(dtype))
        start += count


@st.composite
def ragged(draw):
    contexts = draw(st.lists(st.integers(1, 700), min_size=1, max_size=6))
    queries = [draw(st.one_of(st.just(1), st.just(c), st.integers(0, c))) for c in contexts]
    if sum(queries) == 0:
        queries[0] = 1
    return contexts, queries


@settings(max_examples=50, deadline=None)
@given(
    ragged(),
    st.sampled_from([1, 2, 5, 8, 16, 32, 256]),
    st.sampled_from([(1, 1), (3, 3), (2, 8)]),
    st.sampled_from([32, 64, 80]),
    st.sampled_from(DTYPES),
    st.sampled_from([None, 1, 7, 64]),
    st.sampled_from([None, 5.0]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_torch_equals_the_reference_on_any_batch(
    shape, block_size, heads, head_size, dtype, window, cap, scattered, hnd, seed
):
    kv_heads, group = heads
    batch = Batch(
        *shape,
        block_size=block_size,
        query_heads=kv_heads * group,
        kv_heads=kv_heads,
        head_size=head_size,
        dtype=dtype,
        scattered=scattered,
        hnd=hnd,
        seed=seed,
    )
    options = dict(sliding_window=window, soft_cap=cap)
    expected = paged_attention(*batch.arguments, backend="reference", **options)
    for backend in ("torch", "cpp"):
        torch.testing.assert_close(
            paged_attention(*batch.arguments, backend=backend, **options), expected, **tolerance(dtype)
        )


@pytest.mark.parametrize("backend", ["torch", "cpp"])
def test_a_decode_batch_of_very_different_lengths_equals_the_reference(backend):
    contexts = [1, 2, 3000, 17, 1500, 1499, 16, 5]
    batch = Batch(contexts, [1] * len(contexts))
    torch.testing.assert_close(
        paged_attention(*batch.arguments, backend=backend),
        paged_attention(*batch.arguments, backend="reference"),
        **tolerance(torch.float32),
    )


@pytest.mark.parametrize(
    "contexts, queries",
    [([37, 20, 5], [1, 1, 1]), ([600, 17], [1, 1]), ([37, 40, 9], [37, 1, 3]), ([16, 32, 48], [1, 1, 1]), ([64], [1])],
)
def test_a_plan_made_for_all_layers_gives_each_layer_what_a_call_of_its_own_gives(contexts, queries):
    one, other = Batch(contexts, queries, seed=1), Batch(contexts, queries, seed=1)
    other.layer.key.mul_(2), other.layer.value.add_(1)
    attend = for_all_layers(one.layer, *one.arguments[2:])
    for batch in (one, other, one):
        expected = paged_attention(*batch.arguments, backend="reference")
        torch.testing.assert_close(attend(batch.query, batch.layer), expected, **tolerance(torch.float32))


def test_a_plan_for_all_layers_refuses_what_a_call_refuses():
    batch = Batch([20, 30], [1, 3])
    attend = for_all_layers(batch.layer, batch.block_tables, torch.tensor([20, 2], dtype=torch.int32),
                            batch.query_start_loc)
    with pytest.raises(PagedlabError, match="0 <= queries <= context"):
        attend(batch.query, batch.layer)


def test_a_request_without_queries_in_this_step_is_left_out():
    batch = Batch([20, 30, 10], [2, 0, 1])
    result = paged_attention(*batch.arguments)
    assert result.shape == batch.query.shape and not result.isnan().any()


def test_scale_is_one_over_the_root_of_the_head_size_unless_given():
    batch = Batch([33], [4])
    default = paged_attention(*batch.arguments)
    torch.testing.assert_close(default, paged_attention(*batch.arguments, scale=1 / 8))
    assert not torch.allclose(default, paged_attention(*batch.arguments, scale=1.0))


def test_the_same_buffers_serve_inside_and_outside_inference_mode():
    batch = Batch([500, 400, 450], [1, 1, 1])
    with torch.inference_mode():
        inside = paged_attention(*batch.arguments)
    torch.testing.assert_close(inside, paged_attention(*batch.arguments))


class TestWriting:
    def test_tokens_land_in_their_slots_and_minus_one_is_skipped(self):
        pool = KVPool(2, 4, 4, 2, 32)
        key, value = torch.randn(3, 2, 32), torch.randn(3, 2, 32)
        pool.layer(1).write(key, value, torch.tensor([9, -1, 4]))
        layer = pool.layer(1)
        assert torch.equal(layer.key[2, 1], key[0]) and torch.equal(layer.value[1, 0], value[2])
        assert int((layer.key != 0).any(-1).any(-1).sum()) == 2, "two slots, and no other, were written"
        assert not pool.layer(0).key.any()

    @pytest.mark.parametrize("slots", [[9, -1, 4], [0, 15, 7]])
    def test_slots_looked_at_once_for_all_layers_are_written_like_those_of_a_single_call(self, slots):
        one, other = KVPool(2, 4, 4, 2, 32), KVPool(2, 4, 4, 2, 32)
        slots = torch.tensor(slots)
        write = write_in_all_layers(one.layer(0), slots)
        for i in range(2):
            key, value = torch.randn(3, 2, 32), torch.randn(3, 2, 32)
            write(one.layer(i), key, value)
            other.layer(i).write(key, value, slots)
        assert torch.equal(one.data, other.data) and one.data.any()
        with pytest.raises(PagedlabError, match="KV heads, head size"):
            write_in_all_layers(one.layer(0), slots)(one.layer(0), torch.randn(3, 1, 32), torch.randn(3, 1, 32))
        with pytest.raises(PagedlabError, match="slots go from 0 to 15"):
            write_in_all_layers(one.layer(0), torch.tensor([16]))

    def test_a_pool_of_any_strides_can_be_written(self):
        data = torch.zeros(2, 4, 2, 4, 32)
        layer = LayerKV(data[0].transpose(1, 2), data[1].transpose(1, 2))
        key = torch.randn(1, 2, 32)
        layer.write(key, key, torch.tensor([6]))
        assert torch.equal(data[1, 1, :, 2], key[0])

    @pytest.mark.parametrize("slot", [16, -2])
    def test_a_slot_outside_the_pool_is_refused(self, slot):
        layer = KVPool(1, 4, 4, 2, 32).layer(0)
        with pytest.raises(PagedlabError, match="slots go from 0 to 15"):
            layer.write(torch.zeros(1, 2, 32), torch.zeros(1, 2, 32), torch.tensor([slot]))

    def test_slots_of_the_wrong_type_or_number_are_refused(self):
        layer, key = KVPool(1, 4, 4, 2, 32).layer(0), torch.zeros(1, 2, 32)
        for slots in (torch.zeros(1, dtype=torch.int32), torch.zeros(2, dtype=torch.int64)):
            with pytest.raises(PagedlabError, match="slot_mapping must be int64"):
                layer.write(key, key, slots)
        with pytest.raises(PagedlabError, match="KV heads, head size"):
            layer.write(torch.zeros(1, 3, 32), key, torch.tensor([0]))
        with pytest.raises(PagedlabError, match="convert it first"):
            layer.write(key.half(), key, torch.tensor([0]))


class TestPool:
    def test_copying_reads_every_source_before_it_writes(self):
        pool = KVPool(2, 4, 4, 1, 32)
        pool.data.copy_(torch.arange(4.0)[:, None, None, None].expand_as(pool.data))
        pool.copy_blocks([(0, 1), (1, 2)])
        assert pool.data[1, 1, :, 0, 0, 0].tolist() == [0, 0, 1, 3]

    def test_copies_that_cannot_be_meant_are_refused(self):
        pool = KVPool(1, 4, 4, 1, 32)
        with pytest.raises(PagedlabError, match="ids go from 0 to 3"):
            pool.copy_blocks([(0, 4)])
        with pytest.raises(PagedlabError, match="same block"):
            pool.copy_blocks([(0, 2), (1, 2)])

    def test_addresses_never_change(self):
        pool = KVPool(2, 8, 4, 2, 32)
        before = [pool.layer(i).key.data_ptr() for i in range(2)]
        pool.layer(0).write(torch.ones(1, 2, 32), torch.ones(1, 2, 32), torch.tensor([3]))
        pool.copy_blocks([(0, 1)])
        assert [pool.layer(i).key.data_ptr() for i in range(2)] == before

    def test_bytes_are_counted_as_the_course_counts_them(self):
        pool = KVPool(30, 2, 16, 3, 64, torch.bfloat16)
        assert pool.bytes_per_token == 23040
        assert pool.num_bytes == 2 * pool.bytes_per_block == pool.data.numel() * 2

    def test_every_row_starts_at_a_multiple_of_16_bytes(self):
        for head_size in (32, 64, 80, 96, 128, 256):
            layer = KVPool(1, 2, 1, 3, head_size, torch.float16).layer(0)
            assert layer.key.data_ptr() % 16 == 0 and all(stride * 2 % 16 == 0 for stride in layer.key.stride()[:-1])

    @pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system hides how much memory is in use")
    def test_memory_that_is_not_written_costs_nothing(self):
        def megabytes():
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 10**6

        before = megabytes()
        pool = KVPool(1, 2**16, 16, 8, 64, torch.float32)
        assert pool.num_bytes == 2**32 and not pool.data[0, 0, -1].any()
        assert megabytes() - before < 100

    def test_sizes_below_one_are_refused(self):
        with pytest.raises(PagedlabError, match="num_blocks is 0"):
            KVPool(1, 0, 16, 1, 64)


class TestBadInput:
    def call(self, **changed):
        batch = Batch([20, 30], [1, 3])
        names = ["query", "kv_pool", "block_tables", "seq_lens", "query_start_loc"]
        arguments = dict(zip(names, batch.arguments, strict=True)) | changed
        return paged_attention(**arguments)

    @pytest.mark.parametrize(
        "changed, sentence",
        [
            (dict(query=torch.zeros(4, 4, 64, dtype=torch.float64)), "allowed is one of float32, float16, bfloat16"),
            (dict(query=torch.zeros(4, 4, 32)), "head size 32"),
            (dict(query=torch.zeros(4, 3, 64)), "multiple of KV heads"),
            (dict(query=torch.zeros(4, 64)), r"allowed is \[tokens, query heads, head size\]"),
            (dict(query=torch.zeros(4, 64, 4).transpose(1, 2)), "last dimension is not contiguous"),
            (dict(block_tables=torch.zeros(2, 4, dtype=torch.int64)), "block_tables is torch.int64"),
            (dict(seq_lens=torch.tensor([20, 30])), "seq_lens is torch.int64"),
            (dict(seq_lens=torch.tensor([20], dtype=torch.int32)), "do not belong together"),
            (dict(seq_lens=torch.tensor([20, 999], dtype=torch.int32)), "room for 64"),
            (dict(seq_lens=torch.tensor([20, 2], dtype=torch.int32)), "0 <= queries <= context"),
            (dict(query_start_loc=torch.tensor([0, 1, 3], dtype=torch.int32)), "must go from 0 to 4"),
            (dict(sliding_window=0), "sliding_window is 0"),
            (dict(soft_cap=0.0), "soft_cap is 0.0"),
            (dict(backend="flash"), "allowed are cpp, fixed_tiles, reference, torch, triton"),
        ],
    )
    def test_is_refused_with_a_sentence_that_says_what_is_allowed(self, changed, sentence):
        with pytest.raises(PagedlabError, match=sentence):
            self.call(**changed)

    def test_a_block_id_outside_the_pool_is_caught_under_the_debug_flag(self, monkeypatch):
        monkeypatch.setenv("PAGEDLAB_DEBUG", "1")
        self.call()  # holes past the length may hold anything
        with pytest.raises(PagedlabError, match="physical block 77 is not in the pool"):
            self.call(block_tables=torch.full((2, 4), 77, dtype=torch.int32))


def test_decoding_requests_share_a_call_by_what_is_near_a_processor_on_a_cpu_only():
    """On a GPU each call more is a launch more; shapes are all that counts here, so the meta device stands for it."""
    calls = {}
    for device in ("cpu", "meta"):
        layer = KVPool(1, 4, 16, 8, 128, device=device).layer(0)
        calls[device] = len(_groups(list(range(64)), [100] * 64, layer))
    assert calls == {"cpu": 32, "meta": 1}  # 256 tokens in 2 MiB
