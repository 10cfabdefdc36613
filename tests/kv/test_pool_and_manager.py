"""The rules that decide which block goes where, one at a time, and what happens to those who break them."""

import copy
import pickle

import pytest
from kv_checks import check_pool, hash_of_prefix, state_of, state_of_pool

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.kv import BlockPool, BlockTable, FreeKVCacheBlockQueue, KVCacheBlock, KVCacheManager
from pagedlab.kv.block import block_ids
from pagedlab.kv.prefix import NO_SALT, extend_block_hashes, first_parent, hash_block_tokens


def manager(num_blocks=10, block_size=4, max_model_len=64, caching=True):
    return KVCacheManager(BlockPool(num_blocks, caching), block_size, max_model_len, caching)


def request(name, tokens, block_size=4, **kwargs):
    return Request(name, list(tokens), SamplingParams(), block_size=block_size, **kwargs)


def admit(m, r, **kwargs):
    """Hits, then blocks for all other tokens; returns how many tokens hit, or None where refused."""
    hits, num_hit = m.get_computed_blocks(r)
    if m.allocate_slots(r, r.num_tokens - num_hit, new_computed_blocks=hits, **kwargs) is None:
        return None
    r.num_computed_tokens = r.num_tokens
    return num_hit


def decode(m, r, token):
    r.append_output_token(token)
    new = m.allocate_slots(r, 1)
    if new is not None:
        r.num_computed_tokens += 1
    return new


def free_ids(m):
    return block_ids(m.block_pool.free_block_queue.get_all_free_blocks())


# ------------------------------------------------------------------------------------------------- the queue


def test_the_queue_hands_out_from_the_head_and_takes_a_block_from_the_middle():
    blocks = [KVCacheBlock(i) for i in range(6)]
    queue = FreeKVCacheBlockQueue(blocks)
    assert queue.popleft() is blocks[0]
    assert queue.popleft_n(2) == blocks[1:3]
    queue.remove(blocks[4])
    assert queue.get_all_free_blocks() == [blocks[3], blocks[5]]
    queue.append_n([blocks[0], blocks[1]])
    queue.prepend_n([blocks[2], blocks[4]])
    assert block_ids(queue.get_all_free_blocks()) == [2, 4, 3, 5, 0, 1]
    assert queue.num_free_blocks == 6


def test_the_queue_refuses_what_it_does_not_hold_and_keeps_what_it_has():
    blocks = [KVCacheBlock(i) for i in range(3)]
    queue = FreeKVCacheBlockQueue(blocks)
    taken = queue.popleft()
    for wrong in (lambda: queue.popleft_n(3), lambda: queue.popleft_n(-1), lambda: queue.remove(taken)):
        with pytest.raises(ValueError):
            wrong()
    assert queue.get_all_free_blocks() == blocks[1:]
    queue.popleft_n(2)
    with pytest.raises(ValueError):
        queue.popleft()


# -------------------------------------------------------------------------------------------------- the pool


def test_block_0_is_never_handed_out():
    pool = BlockPool(5)
    assert block_ids(pool.get_new_blocks(4)) == [1, 2, 3, 4]
    assert pool.get_usage() == 1.0
    with pytest.raises(ValueError, match="cannot take 1 blocks"):
        pool.get_new_blocks(1)


def test_blocks_without_a_hash_go_to_the_head_and_those_with_one_to_the_tail():
    pool = BlockPool(8)
    blocks = pool.get_new_blocks(5)
    pool.cache_full_blocks(blocks, [b"a", b"b"], 0, 2)
    pool.free_blocks(blocks[::-1])
    assert block_ids(pool.free_block_queue.get_all_free_blocks()) == [5, 4, 3, 6, 7, 2, 1]


def test_a_shared_block_becomes_free_only_when_its_last_owner_has_left():
    pool = BlockPool(4)
    blocks = pool.get_new_blocks(1)
    pool.touch(blocks)
    pool.free_blocks(blocks)
    assert blocks[0].ref_cnt == 1 and pool.get_num_free_blocks() == 2
    pool.free_blocks(blocks)
    assert pool.get_num_free_blocks() == 3


def test_a_touched_block_leaves_the_free_queue_from_wherever_it_stands():
    pool = BlockPool(6)
    blocks = pool.get_new_blocks(3)
    pool.cache_full_blocks(blocks, [b"a", b"b", b"c"], 0, 3)
    pool.free_blocks(blocks)  # the queue: 4, 5, 1, 2, 3
    pool.touch([blocks[1]])
    assert block_ids(pool.free_block_queue.get_all_free_blocks()) == [4, 5, 1, 3] and blocks[1].ref_cnt == 1
    check_pool(pool, [[blocks[1]]])


def test_a_hash_lives_until_its_block_is_handed_out_again():
    pool = BlockPool(3)
    blocks = pool.get_new_blocks(1)
    pool.cache_full_blocks(blocks, [b"a"], 0, 1)
    pool.free_blocks(blocks)
    assert pool.get_cached_block(b"a") is blocks[0]
    assert block_ids(pool.get_new_blocks(1)) == [2]  # the one without a hash
    assert pool.get_cached_block(b"a") is blocks[0]
    assert pool.get_new_blocks(1) == blocks
    assert pool.get_cached_block(b"a") is None


def test_of_two_blocks_with_the_same_hash_the_earlier_one_is_found_while_it_lasts():
    pool = BlockPool(4)
    one, two = pool.get_new_blocks(1), pool.get_new_blocks(1)
    pool.cache_full_blocks(two, [b"a"], 0, 1)
    pool.cache_full_blocks(one, [b"a"], 0, 1)
    assert pool.get_cached_block(b"a") is two[0]
    pool.free_blocks(two)
    pool.get_new_blocks(2)  # block 3, then `two` again
    assert pool.get_cached_block(b"a") is one[0]


def test_the_cache_is_forgotten_only_when_nobody_uses_a_block():
    pool = BlockPool(4)
    blocks = pool.get_new_blocks(2)
    pool.cache_full_blocks(blocks, [b"a", b"b"], 0, 2)
    assert not pool.reset_prefix_cache() and pool.get_cached_block(b"a") is blocks[0]
    pool.free_blocks(blocks)
    order = pool.free_block_queue.get_all_free_blocks()
    assert pool.reset_prefix_cache()
    assert pool.get_cached_block(b"a") is None and pool.free_block_queue.get_all_free_blocks() == order
    check_pool(pool, [])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda pool, used: pool.free_blocks([pool.null_block]), "null block"),
        (lambda pool, used: pool.free_blocks([*used, pool.blocks[5]]), "#5: nobody owns it"),
        (lambda pool, used: pool.free_blocks([*used, used[0]]), "double free"),
        (lambda pool, used: pool.touch([*used, pool.null_block]), "null block"),
        (lambda pool, used: pool.get_new_blocks(-1), "cannot take -1"),
        (lambda pool, used: pool.get_new_blocks(100), "cannot take 100"),
        (lambda pool, used: pool.cache_full_blocks(used, [b"a", b"b"], 0, 2), "has a hash already"),
        (lambda pool, used: pool.cache_full_blocks(used, [b"a"], 1, 2), "1 block hashes"),
        (lambda pool, used: pool.cache_full_blocks(used, [b"a", b"b", b"c"], 1, 3), "2 blocks"),
        (lambda pool, used: pool.cache_full_blocks(used, [b"a", b"b"], -1, 1), "cannot cache"),
        (lambda pool, used: pool.cache_full_blocks([pool.null_block], [b"a"], 0, 1), "no owner"),
    ],
)
def test_the_pool_refuses_in_clear_words_and_nothing_has_changed(wrong, words):
    pool = BlockPool(8)
    used = pool.get_new_blocks(2)
    pool.cache_full_blocks(used, [b"a"], 0, 1)
    before = state_of_pool(pool)
    with pytest.raises(ValueError, match=words):
        wrong(pool, used)
    assert state_of_pool(pool) == before


def test_two_owners_may_give_back_their_shared_block_in_one_call():
    pool = BlockPool(4)
    shared, own = pool.get_new_blocks(2)
    pool.touch([shared])
    pool.free_blocks([shared, own, shared])
    assert shared.ref_cnt == own.ref_cnt == 0 and pool.get_num_free_blocks() == 3
    check_pool(pool, [])


def test_sizes_that_make_no_sense_are_refused():
    for num_blocks in (1, 0, -3):
        with pytest.raises(ValueError, match="at least 2"):
            BlockPool(num_blocks)
    for block_size, max_model_len in ((0, 8), (-1, 8), (4, 0)):
        with pytest.raises(ValueError, match="at least 1"):
            KVCacheManager(BlockPool(4), block_size, max_model_len)
    with pytest.raises(ValueError, match="enable_caching"):
        KVCacheManager(BlockPool(4, enable_caching=False), 4, 8, enable_caching=True)
    with pytest.raises(ValueError, match="enable_caching=False"):
        pool = BlockPool(4, enable_caching=False)
        pool.cache_full_blocks(pool.get_new_blocks(1), [b"a"], 0, 1)
    with pytest.raises(ValueError, match="at least 1"):
        BlockTable(0)


# ----------------------------------------------------------------------------------------------- the manager


def test_blocks_are_taken_only_when_the_last_one_is_full():
    m, r = manager(), request("A", range(6))
    admit(m, r)
    assert m.get_block_ids("A") == [1, 2]
    assert decode(m, r, 6) == [] and decode(m, r, 7) == []
    assert block_ids(decode(m, r, 8)) == [3]
    assert m.get_block_ids("A") == [1, 2, 3]


def test_a_prefix_is_shared_in_whole_blocks_and_the_last_token_never_hits():
    m = manager()
    admit(m, request("A", range(10)))
    for tokens, hit in (
        (range(10), 8),
        (range(9), 8),
        (range(8), 4),
        (range(5), 4),
        (range(4), 0),
        ([0, 1, 2, 9, 4], 0),
    ):
        assert m.get_computed_blocks(request("B", tokens))[1] == hit
    b = request("B", [*range(8), 77, 78])
    assert admit(m, b) == 8
    assert m.get_block_ids("B") == [1, 2, 4] and [block.ref_cnt for block in m.block_pool.blocks[:5]] == [0, 2, 2, 1, 1]


def test_a_block_can_be_hit_in_the_step_that_fills_it():
    m, a = manager(), request("A", range(8))
    m.allocate_slots(a, 4)  # the first chunk is allocated; the model has not run
    assert m.get_computed_blocks(request("B", range(8)))[1] == 4


def test_a_full_block_is_named_only_once_the_request_holds_all_its_tokens():
    m, a = manager(), request("A", range(6))
    assert m.allocate_slots(a, 8) is not None  # room for two tokens that are not there yet
    assert [block.block_hash is not None for block in m.req_to_blocks["A"]] == [True, False]


def test_a_request_gives_its_blocks_back_from_the_last_to_the_first():
    m, a = manager(), request("A", range(10))
    admit(m, a)
    m.free(a)
    assert free_ids(m) == [3, 4, 5, 6, 7, 8, 9, 2, 1]


def test_a_preempted_request_finds_again_what_was_not_overwritten():
    m, a = manager(6), request("A", range(10))
    admit(m, a)  # blocks 1, 2, 3
    m.free(a)
    a.num_computed_tokens = 0
    b = request("B", range(100, 116))
    assert admit(m, b) == 0  # blocks 3, 4, 5 and then 2: the end of A's prefix goes first
    m.free(b)
    assert admit(m, a) == 4
    assert m.get_block_ids("A")[0] == 1


def test_a_refusal_changes_nothing():
    m, a = manager(5), request("A", range(10))
    admit(m, a)
    before = state_of(m)
    assert admit(m, request("B", range(100, 108))) is None
    assert state_of(m) == before


def test_hits_that_are_free_count_as_taken_so_that_none_is_handed_out_twice():
    m, a = manager(4), request("A", range(8))
    admit(m, a)
    m.free(a)  # the queue: 3, 2, 1; all of it is needed, two blocks of it are the hits
    b = request("B", [*range(8), 1, 2, 3, 4, 5])
    assert m.get_computed_blocks(b)[1] == 8
    assert admit(m, b) is None
    assert admit(m, request("C", [*range(8), 1])) == 8
    assert m.get_block_ids("C") == [1, 2, 3]


def test_full_sequence_must_fit_looks_beyond_the_chunk():
    m, a = manager(4), request("A", range(20))
    before = state_of(m)
    assert m.allocate_slots(a, 4, full_sequence_must_fit=True) is None
    assert state_of(m) == before
    assert m.allocate_slots(a, 4) is not None


def test_requests_with_different_salts_share_nothing():
    m = manager()
    admit(m, request("A", range(10), salt="alice"))
    assert m.get_computed_blocks(request("B", range(10), salt="bob"))[1] == 0
    assert m.get_computed_blocks(request("B", range(10), salt="alice"))[1] == 8


def test_without_caching_nothing_is_named_or_hit():
    m, a = manager(caching=False), request("A", range(10), enable_caching=False)
    assert a.block_hashes == []
    admit(m, a)
    assert m.get_computed_blocks(request("B", range(10), enable_caching=False)) == ([], 0)
    m.free(a)
    assert free_ids(m) == [3, 2, 1, 4, 5, 6, 7, 8, 9]


def finished():
    r = request("F", range(4))
    r.status = "finished"
    return r


def computed_elsewhere():
    r = request("E", range(4))
    r.num_computed_tokens = 3
    return r


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda m, a: m.allocate_slots(a, 0), "at least 1"),
        (lambda m, a: m.allocate_slots(a, -1), "at least 1"),
        (lambda m, a: m.allocate_slots(a, 55), "at most max_model_len=64"),
        (lambda m, a: m.allocate_slots(request("B", range(65)), 65), "at most max_model_len=64"),
        (lambda m, a: m.allocate_slots(a, 1, new_computed_blocks=m.req_to_blocks["A"][:1]), "at admission only"),
        (lambda m, a: m.allocate_slots(finished(), 4), "'F' is finished"),
        (lambda m, a: m.allocate_slots(computed_elsewhere(), 1), "'E' is unknown"),
        (lambda m, a: m.allocate_slots(request("B", range(8), enable_caching=False), 8), "names only 0"),
        (lambda m, a: m.allocate_slots(request("B", range(8), block_size=8), 8), "names only 1"),
        (lambda m, a: m.free(request("B", range(4))), "'B' holds no blocks"),
        (lambda m, a: m.free(finished()), "'F' holds no blocks"),
    ],
)
def test_the_manager_refuses_in_clear_words_and_nothing_has_changed(wrong, words):
    m, a = manager(), request("A", range(10))
    admit(m, a)
    before = state_of(m)
    with pytest.raises(ValueError, match=words):
        wrong(m, a)
    assert state_of(m) == before


def test_freeing_a_request_twice_is_an_error():
    m, a = manager(), request("A", range(10))
    admit(m, a)
    m.free(a)
    before = state_of(m)
    with pytest.raises(ValueError, match="freed before"):
        m.free(a)
    assert state_of(m) == before


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_a_manager_can_be_copied_however_long_its_queue(clone):
    m = manager(3000)  # links that were followed block by block would exhaust the stack
    a = request("A", range(10))
    admit(m, a)
    twin = clone(m)
    assert state_of(twin) == state_of(m)
    twin.free(a)
    check_pool(twin.block_pool, [])
    assert m.get_block_ids("A") == [1, 2, 3]


# ------------------------------------------------------------------------------------------ hashes and tables


def test_a_block_is_named_by_its_tokens_and_all_before_them():
    tokens = list(range(12))
    names = []
    extend_block_hashes(names, tokens, 4)
    assert names == [hash_of_prefix(tokens[:n], 4) for n in (4, 8, 12)]
    assert names[1] == hash_block_tokens(names[0], tokens[4:8])
    assert names[0] == hash_block_tokens(NO_SALT, tokens[:4])
    assert NO_SALT == first_parent("") != first_parent("x")


def test_names_are_the_same_whether_tokens_come_at_once_or_one_by_one():
    tokens = list(range(1000, 1037))
    at_once, one_by_one = [], []
    extend_block_hashes(at_once, tokens, 5)
    for n in range(1, len(tokens) + 1):
        extend_block_hashes(one_by_one, tokens[:n], 5)
        assert len(one_by_one) == n // 5
    assert one_by_one == at_once


def test_a_block_table_says_where_each_token_lies():
    table = BlockTable(4, [7, 3])
    table.append([9])
    assert table.locate(9) == (9, 1) and table.locate(4) == (3, 0)
    assert table.slot_mapping(2, 10) == [30, 31, 12, 13, 14, 15, 36, 37]
    assert table.slot_mapping(5, 5) == []
    for wrong in (lambda: table.locate(12), lambda: table.locate(-1), lambda: table.slot_mapping(10, 13)):
        with pytest.raises(IndexError, match="0 to 11"):
            wrong()
