"""Several groups of layers over one pool: each finds in its blocks what it looks at, and gives back the others."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kv_checks import check_pool

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.kv.block import block_ids
from pagedlab.kv.groups import GroupedKVCacheManager, SlidingWindowGroup


def make(windows, num_blocks=40, block_size=4, caching=True, **limits):
    pool = BlockPool(num_blocks, caching)
    return GroupedKVCacheManager(pool, block_size, 200, caching, windows=windows, **limits)


def prompt(tokens, name="A", block_size=4):
    return Request(name, list(tokens), SamplingParams(), block_size=block_size)


def compute(manager, request, count, **options):
    """Room for ``count`` tokens, which are then computed; what was new."""
    hits, num_hit = None, 0
    if request.request_id not in manager.shared_prefix_boundaries:
        hits, num_hit = manager.get_computed_blocks(request)
        count -= num_hit
    new = manager.allocate_slots(request, count, hits, **options)
    if new is not None:
        request.num_computed_tokens += num_hit + count
    return new


def free_blocks(manager):
    return block_ids(manager.block_pool.free_block_queue.get_all_free_blocks())


def test_a_window_gives_blocks_back_while_the_request_runs_and_full_attention_does_not():
    manager = make([None, 6], num_blocks=20)
    request = prompt(range(16))
    compute(manager, request, 16)
    assert manager.get_block_ids("A") == ([1, 2, 3, 4], [5, 6, 7, 8]), "the chunk's own tokens still look at theirs"
    request.append_output_token(16)
    compute(manager, request, 1)
    # Token 16 looks at tokens 11 to 16: blocks 0 and 1 of the group hold nothing for it. The one without a name is
    # taken by the other group at once; the one that a hit could need lives on at the tail.
    assert manager.get_block_ids("A") == ([1, 2, 3, 4, 5], [0, 0, 7, 8, 9])
    assert free_blocks(manager)[-1] == 6
    manager.free(request)
    assert len(free_blocks(manager)) == 19 and manager.get_block_ids("A") == ([], [])


@pytest.mark.parametrize("computed, skipped", [(0, 0), (5, 0), (8, 0), (9, 1), (12, 1), (13, 2), (100, 23)])
def test_how_many_blocks_are_out_of_a_window_of_six(computed, skipped):
    """The next token, at position ``computed``, looks at itself and five before it."""
    group = SlidingWindowGroup(0, BlockPool(4), 4, 6)
    assert group.num_skipped_blocks(computed) == skipped
    first_looked_at = max(0, computed - 5)
    assert skipped == first_looked_at // 4


def test_a_hit_is_as_long_as_every_group_has_it_and_needs_only_the_blocks_of_a_window():
    manager = make([None, 6], retention_interval=None)
    first = prompt(range(22))
    compute(manager, first, 22)
    manager.free(first)
    hits, length = manager.get_computed_blocks(prompt(range(22), "B"))
    assert length == 20 and hits.shared_prefix_boundary == 0
    full, sliding = (block_ids(blocks) for blocks in hits.blocks)
    assert len(full) == 5 and 0 not in full
    assert sliding[:3] == [0, 0, 0] and len(sliding) == 5 and 0 not in sliding[3:]


def test_only_ends_of_hits_are_named_unless_every_block_is_to_be():
    named = {}
    for interval in (0, None, 16):
        manager = make([6], retention_interval=interval)
        compute(manager, prompt(range(42)), 42)
        blocks = manager.groups[0].req_to_blocks["A"]
        named[interval] = [i for i, block in enumerate(blocks) if block.is_cached]
    # A window of 6 is covered by two blocks of 4; a prompt of 42 ends a hit at block 10.
    assert named == {0: [8, 9], None: [*range(10)], 16: [2, 3, 6, 7, 8, 9]}


def test_a_start_that_full_attention_alone_still_has_is_named_the_second_time():
    manager = make([None, 6])
    first = prompt([*range(16), *range(50, 70)])
    compute(manager, first, 36)
    manager.free(first)
    second = prompt([*range(16), *range(80, 100)], "B")
    hits, length = manager.get_computed_blocks(second)
    assert length == 0 and hits.shared_prefix_boundary == 16
    compute(manager, second, 36)
    manager.free(second)
    hits, length = manager.get_computed_blocks(prompt([*range(16), 7], "C"))
    assert length == 16 and block_ids(hits.blocks[1])[:2] == [0, 0]


def test_no_block_is_shared_between_groups_and_a_hash_names_its_group():
    manager = make([None, None], num_blocks=20)
    request = prompt(range(9))
    compute(manager, request, 9)
    one, other = manager.get_block_ids("A")
    assert not set(one) & set(other)
    name = request.block_hashes[0]
    keys = [group.key(name) for group in manager.groups]
    assert [manager.block_pool.get_cached_block(key).block_id for key in keys] == [one[0], other[0]]
    assert manager.block_pool.get_cached_block(name) is None


def test_the_gate_asks_for_no_more_than_a_window_and_a_step_ever_hold():
    for in_flight, admitted in ((8, True), (None, False)):
        manager = make([6], num_blocks=8, max_in_flight_tokens=in_flight)
        assert (compute(manager, prompt(range(60)), 8, full_sequence_must_fit=True) is not None) == admitted
    manager = make([None, 6], num_blocks=8, max_in_flight_tokens=8)
    assert compute(manager, prompt(range(60)), 8, full_sequence_must_fit=True) is None, "full attention holds it all"


def test_what_a_window_has_passed_is_given_back_also_where_the_rest_does_not_fit():
    manager = make([4], num_blocks=6)
    request = prompt(range(40))
    compute(manager, request, 16)
    assert len(free_blocks(manager)) == 1
    assert compute(manager, request, 24) is None
    assert manager.get_block_ids("A") == ([0, 0, 0, 4],) and len(free_blocks(manager)) == 4
    assert request.num_computed_tokens == 16 and compute(manager, request, 8) is not None


def test_slots_for_drafts_lie_behind_the_tokens_and_get_no_name():
    manager = make([None], num_lookahead_tokens=3)
    request = prompt(range(7))
    compute(manager, request, 7)
    assert len(manager.get_block_ids("A")[0]) == 3, "7 tokens and 3 drafts"
    assert [block.is_cached for block in manager.groups[0].req_to_blocks["A"]] == [True, False, False]


def test_tokens_that_are_under_way_keep_their_window():
    manager = make([4], num_blocks=20)
    request = prompt(range(40))
    compute(manager, request, 12)
    request.num_in_flight_tokens = 8
    compute(manager, request, 1)
    assert manager.get_block_ids("A")[0][:3] == [1, 2, 3], "four of them are settled"
    request.num_in_flight_tokens = 1
    compute(manager, request, 1)
    assert manager.get_block_ids("A")[0][:3] == [0, 0, 3]


def test_one_group_of_full_attention_does_as_the_other_manager():
    shorter = KVCacheManager(BlockPool(20), 4, 200)
    longer = make([None], num_blocks=20)
    requests = [[prompt([*range(12), *range(90 + i, 98 + i)], name) for i, name in enumerate("ABC")] for _ in range(2)]
    for one, other in zip(*requests, strict=True):
        hits, num_hit = shorter.get_computed_blocks(one)
        shorter.allocate_slots(one, 20 - num_hit, hits)
        one.num_computed_tokens = 20
        compute(longer, other, 20)
        assert longer.get_block_ids(one.request_id) == (shorter.get_block_ids(one.request_id),)
    for one, other in zip(*requests, strict=True):
        shorter.free(one)
        longer.free(other)
        assert free_blocks(longer) == free_blocks(shorter)


@pytest.mark.parametrize("given, words", [
    ({"windows": []}, "give one for each group"), ({"windows": [0]}, "None or at least 1"),
    ({"windows": [4], "retention_interval": 6}, "a multiple of 4"),
    ({"windows": [4], "retention_interval": -4}, "a multiple of 4"),
    ({"windows": [4], "max_in_flight_tokens": 0}, "max_in_flight_tokens is 0"),
    ({"windows": [4], "num_lookahead_tokens": -1}, "num_lookahead_tokens -1"),
], ids=str)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        make(**given)


def test_what_is_asked_wrongly_changes_nothing():
    manager = make([None, 6])
    request, stranger = prompt(range(10)), prompt(range(10), "B")
    hits, _ = manager.get_computed_blocks(request)
    compute(manager, request, 10)
    before = (manager.get_block_ids("A"), free_blocks(manager))
    stranger.num_computed_tokens = 4
    for wrong in (
        lambda: manager.allocate_slots(request, 0), lambda: manager.allocate_slots(request, 191),
        lambda: manager.allocate_slots(stranger, 1), lambda: manager.free(stranger),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            wrong()
    assert (manager.get_block_ids("A"), free_blocks(manager)) == before


# -------------------------------------------------------------------------------------------------- in any order

PICK = st.integers(0, 1 << 16)
WINDOWS = st.lists(st.sampled_from([None, 1, 2, 3, 5, 6, 8, 13]), min_size=1, max_size=3)


class GroupsMachine(RuleBasedStateMachine):
    """Whoever is computed writes into its slots which tokens led up to them, in each group; and must find, in every
    token that it looks at, what it wrote itself or what somebody else wrote for the same tokens."""

    @initialize(num_blocks=st.integers(6, 24), block_size=st.integers(1, 4), caching=st.booleans(), windows=WINDOWS,
                interval=st.sampled_from([None, 0, 1, 2]), in_flight=st.sampled_from([None, 4]),
                lookahead=st.integers(0, 2))  # fmt: skip
    def start(self, num_blocks, block_size, caching, windows, interval, in_flight, lookahead):
        interval = interval and interval * block_size
        self.manager = make(windows, num_blocks, block_size, caching, retention_interval=interval,
                            max_in_flight_tokens=in_flight, num_lookahead_tokens=lookahead)  # fmt: skip
        self.most = in_flight or 99
        self.slots, self.num_requests = {}, 0
        self.running, self.waiting = [], []

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=30))
    def arrive(self, tokens):
        self.num_requests += 1
        request = Request(f"r{self.num_requests}", tokens, SamplingParams(), block_size=self.manager.block_size,
                          enable_caching=self.manager.enable_caching)  # fmt: skip
        self.waiting.append(request)

    @precondition(lambda self: self.waiting)
    @rule(pick=PICK, chunk=st.integers(1, 12), must_fit=st.booleans())
    def admit(self, pick, chunk, must_fit):
        request = self.waiting[pick % len(self.waiting)]
        hits, num_hit = self.manager.get_computed_blocks(request)
        assert num_hit < request.num_tokens
        assert not hits.shared_prefix_boundary or num_hit < hits.shared_prefix_boundary < request.num_tokens
        count = min(chunk, self.most, request.num_tokens - num_hit)
        if self.manager.allocate_slots(request, count, hits, must_fit) is not None:
            request.num_computed_tokens = num_hit
            self.waiting.remove(request)
            self.running.append(request)
            self.run(request, count)

    @precondition(lambda self: self.running)
    @rule(pick=PICK, chunk=st.integers(1, 12), token=st.integers(0, 1))
    def go_on(self, pick, chunk, token):
        request = self.running[pick % len(self.running)]
        if request.num_computed_tokens == request.num_tokens:
            request.append_output_token(token)
        count = min(chunk, self.most, request.num_tokens - request.num_computed_tokens)
        held = sum(map(len, self.manager.get_block_ids(request.request_id)))
        if self.manager.allocate_slots(request, count) is not None:
            self.run(request, count)
        else:
            assert sum(map(len, self.manager.get_block_ids(request.request_id))) == held

    def run(self, request, count):
        size, end = self.manager.block_size, request.num_computed_tokens + count
        for number, group in enumerate(self.manager.groups):
            table = group.req_to_blocks[request.request_id]
            seen = {at: (number, tuple(request.all_token_ids[: at + 1])) for at in range(end)}
            for at in range(request.num_computed_tokens, end):
                assert not table[at // size].is_null
                self.slots[table[at // size].block_id, at % size] = seen[at]
            first = request.num_computed_tokens - (group.window or end) + 1  # what the chunk's first token looks at
            for at in range(max(0, first), end):
                assert self.slots[table[at // size].block_id, at % size] == seen[at]
        request.num_computed_tokens = end

    @precondition(lambda self: self.running)
    @rule(pick=PICK, resumes=st.booleans())
    def leave(self, pick, resumes):
        request = self.running.pop(pick % len(self.running))
        self.manager.free(request)
        if resumes:
            request.num_computed_tokens = 0
            self.waiting.append(request)

    @rule()
    def forget(self):
        assert self.manager.reset_prefix_cache() is not bool(self.running)

    @invariant()
    def consistent(self):
        if hasattr(self, "manager"):
            tables = [[block for block in table if not block.is_null]
                      for group in self.manager.groups for table in group.req_to_blocks.values()]  # fmt: skip
            check_pool(self.manager.block_pool, tables)
            assert self.manager.shared_prefix_boundaries.keys() == {request.request_id for request in self.running}


TestGroups = pytest.mark.slow(GroupsMachine.TestCase)
TestGroups.settings = settings(max_examples=1000, stateful_step_count=25, deadline=None,
                               suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])  # fmt: skip
