"""Attention in fixed tiles: what the reference gives, and to the bit the same however queries are cut into calls."""

from __future__ import annotations

import pytest
import torch
from batches import Batch, tolerance
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedlab.attention import choose_backend, paged_attention

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@st.composite
def ragged(draw):
    contexts = draw(st.lists(st.integers(1, 400), min_size=1, max_size=5))
    queries = [draw(st.one_of(st.just(1), st.just(c), st.integers(0, c))) for c in contexts]
    return contexts, queries if sum(queries) else [1, *queries[1:]]


@settings(max_examples=50, deadline=None)
@given(
    ragged(),
    st.sampled_from([1, 5, 16, 256]),
    st.sampled_from([(1, 1), (3, 3), (2, 8)]),
    st.sampled_from([32, 80]),
    st.sampled_from(DTYPES),
    st.sampled_from([None, 1, 7, 130]),
    st.sampled_from([None, 5.0]),
    st.booleans(),
    st.integers(0, 99),
)
def test_it_equals_the_reference_on_any_batch(shape, block_size, heads, head_size, dtype, window, cap, hnd, seed):
    kv_heads, query_heads = heads
    sizes = {"kv_heads": kv_heads, "query_heads": query_heads, "head_size": head_size, "block_size": block_size}
    batch = Batch(*shape, dtype=dtype, seed=seed, hnd=hnd, **sizes)
    options = {"sliding_window": window, "soft_cap": cap}
    torch.testing.assert_close(
        paged_attention(*batch.arguments, **options, backend="fixed_tiles"),
        paged_attention(*batch.arguments, **options, backend="reference"),
        **tolerance(dtype),
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=4),
    st.sampled_from([4, 5, 16]),
    st.sampled_from(DTYPES),
    st.sampled_from([None, 3, 129]),
    st.integers(1, 40),
    st.integers(0, 99),
)
def test_a_query_gets_the_same_bits_in_one_call_and_in_many(contexts, block_size, dtype, window, chunk, seed):
    """All requests whole in one call; then each alone, `chunk` tokens at a time, its context growing."""
    batch = Batch(contexts, contexts, block_size=block_size, dtype=dtype, seed=seed)
    options = {"sliding_window": window, "backend": "fixed_tiles"}
    together = paged_attention(*batch.arguments, **options)
    for r, context in enumerate(contexts):
        first = int(batch.query_start_loc[r])
        for start in range(0, context, chunk):
            end = min(start + chunk, context)
            part = paged_attention(
                batch.query[first + start : first + end],
                batch.layer,
                batch.block_tables[r : r + 1],
                torch.tensor([end], dtype=torch.int32),
                torch.tensor([0, end - start], dtype=torch.int32),
                **options,
            )
            assert torch.equal(part, together[first + start : first + end])


def test_the_quick_back_end_does_not_keep_that():
    batch = Batch([300], [300], dtype=torch.float32)
    whole = paged_attention(*batch.arguments, backend="torch")
    numbers = torch.tensor([300], dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
    last = paged_attention(batch.query[-1:], batch.layer, batch.block_tables, *numbers, backend="torch")
    assert not torch.equal(last, whole[-1:])


@pytest.mark.parametrize("device, otherwise", [("cpu", "cpp"), ("mps", "torch")])
def test_it_is_chosen_where_equal_bits_are_wanted_and_nowhere_else(device, otherwise):
    assert choose_backend(None, torch.device(device), batch_invariant=True) == "fixed_tiles"
    assert choose_backend(None, torch.device(device)) == otherwise
