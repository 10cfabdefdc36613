"""Fork and copy-on-write: who shares what, who copies, and who is left untouched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedlab.kv.block import block_ids
from pagedlab.kv.cow import append_slot, common_blocks, fork_table
from pagedlab.kv.paper import BlockAllocator


def table_of(pool: BlockAllocator, num_blocks: int) -> list:
    return [pool.allocate() for _ in range(num_blocks)]


def test_a_child_shares_every_block_the_partly_filled_one_included_and_nothing_is_taken():
    pool = BlockAllocator(8)
    parent = table_of(pool, 3)
    child = fork_table(parent)
    assert child == parent and child is not parent
    assert [block.ref_cnt for block in parent] == [2, 2, 2]
    assert pool.get_num_free_blocks() == 5


def test_a_write_into_a_shared_block_names_the_copy_and_retargets_the_writer_only():
    pool = BlockAllocator(8)
    parent = table_of(pool, 3)
    child = fork_table(parent)
    before = block_ids(parent)
    pair = append_slot(child, 10, 4, pool)
    assert pair == (before[2], child[2].block_id) and child[2] is not parent[2]
    assert block_ids(parent) == before and block_ids(child)[:2] == before[:2]
    assert [block.ref_cnt for block in parent] == [2, 2, 1] and child[2].ref_cnt == 1


@pytest.mark.parametrize("n", [1, 2, 4, 7])
def test_of_n_sequences_with_a_shared_tail_n_minus_1_copy_and_the_last_writes_in_place(n):
    pool = BlockAllocator(16)
    tables = [table_of(pool, 2)]
    tables += [fork_table(tables[0]) for _ in range(n - 1)]
    pairs = [append_slot(table, 6, 4, pool) for table in tables]
    assert [pair is None for pair in pairs] == [False] * (n - 1) + [True]
    assert len({table[1] for table in tables}) == n
    assert all(table[1].ref_cnt == 1 for table in tables) and tables[0][0].ref_cnt == n
    assert [append_slot(table, 7, 4, pool) for table in tables] == [None] * n  # once apart, nobody copies again


def test_a_full_shared_block_is_never_copied():
    pool = BlockAllocator(8)
    parent = table_of(pool, 2)
    child = fork_table(parent)
    assert append_slot(child, 9, 4, pool) is None and append_slot(parent, 9, 4, pool) is None
    assert child[:2] == parent[:2] and child[2] is not parent[2]


@pytest.mark.parametrize("num_tokens", [0, 4, 10, 99])
def test_a_token_that_is_not_the_next_one_is_refused_and_nothing_changes(num_tokens):
    pool = BlockAllocator(8)
    table = table_of(pool, 2)
    fork_table(table)
    before = block_ids(table)
    with pytest.raises(ValueError, match="one at a time"):
        append_slot(table, num_tokens, 4, pool)
    assert block_ids(table) == before and pool.get_num_free_blocks() == 6


def test_without_a_free_block_a_copy_is_refused_and_nothing_changes():
    pool = BlockAllocator(2)
    table = table_of(pool, 2)
    other = fork_table(table)
    with pytest.raises(ValueError, match="none is free"):
        append_slot(table, 7, 4, pool)
    assert table == other and [block.ref_cnt for block in table] == [2, 2]


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12), min_size=1, max_size=4), st.integers(1, 4))
def test_sequences_share_exactly_their_common_full_blocks_but_never_the_one_of_the_last_token(sequences, size):
    for i, (tokens, (other, count)) in enumerate(zip(sequences, common_blocks(sequences, size), strict=True)):
        best = max(
            (
                n
                for j in range(i)
                for n in range((min(len(tokens), len(sequences[j])) - 1) // size + 1)
                if tokens[: n * size] == sequences[j][: n * size]
            ),
            default=0,
        )
        assert count == best
        assert count == 0 or (other < i and sequences[other][: count * size] == tokens[: count * size])
