"""Random operations by hypothesis: whatever is asked, in whatever order, memory stays consistent."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kv_checks import check_pool, hash_of_prefix, state_of, state_of_pool

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.engine.scheduler import Scheduler
from pagedlab.kv import BlockPool, KVCacheManager

MACHINE = settings(
    max_examples=1000,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
# Two tokens and short prompts: prefixes meet all the time.
TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=14)
PICK = st.integers(0, 1 << 16)
LIMIT = 18


class PoolMachine(RuleBasedStateMachine):
    """The pool by itself, driven by somebody who makes mistakes too."""

    @initialize(num_blocks=st.integers(2, 10))
    def start(self, num_blocks):
        self.pool = BlockPool(num_blocks)
        self.tables = []
        self.num_hashes = 0

    @rule(n=st.integers(0, 4))
    def take(self, n):
        if n <= self.pool.get_num_free_blocks():
            head = self.pool.free_block_queue.get_all_free_blocks()[:n]
            table = self.pool.get_new_blocks(n)
            assert table == head and all(block.ref_cnt == 1 and block.block_hash is None for block in table)
            self.tables.append(table)
        else:
            self.refused(lambda: self.pool.get_new_blocks(n), "cannot take")

    @precondition(lambda self: self.tables)
    @rule(pick=PICK, repeat=st.booleans())
    def name(self, pick, repeat):
        table = self.tables[pick % len(self.tables)]
        first = next((i for i, block in enumerate(table) if block.block_hash is None), len(table))
        names = [block.block_hash for block in table[:first]]
        for i in range(first, len(table)):  # sometimes the name of another block: both are kept
            known = list(self.pool.cached_block_hash_to_blocks)
            self.num_hashes += 1
            names.append(known[i % len(known)] if repeat and known else self.num_hashes.to_bytes(32, "big"))
        self.pool.cache_full_blocks(table, names, first, len(table))

    @precondition(lambda self: self.pool.cached_block_hash_to_blocks)
    @rule(pick=PICK)
    def hit(self, pick):
        names = list(self.pool.cached_block_hash_to_blocks)
        block = self.pool.get_cached_block(names[pick % len(names)])
        self.pool.touch([block])
        self.tables.append([block])

    @precondition(lambda self: self.tables)
    @rule(pick=PICK)
    def give_back(self, pick):
        table = self.tables.pop(pick % len(self.tables))
        unnamed = [b for b in table[::-1] if b.ref_cnt == 1 and b.block_hash is None]
        named = [b for b in table[::-1] if b.ref_cnt == 1 and b.block_hash is not None]
        before = self.pool.free_block_queue.get_all_free_blocks()
        self.pool.free_blocks(table[::-1])
        assert self.pool.free_block_queue.get_all_free_blocks() == unnamed + before + named

    @rule()
    def forget(self):
        in_use = any(self.tables)
        assert self.pool.reset_prefix_cache() is not in_use
        assert in_use or not self.pool.cached_block_hash_to_blocks

    @rule(pick=PICK)
    def make_a_mistake(self, pick):
        table = self.tables[pick % len(self.tables)] if self.tables else []
        free = self.pool.free_block_queue.get_all_free_blocks()
        self.refused(lambda: self.pool.get_new_blocks(-1), "cannot take -1")
        self.refused(lambda: self.pool.free_blocks([*table, self.pool.null_block]), "null block")
        self.refused(lambda: self.pool.touch([*table, self.pool.null_block]), "null block")
        if free:
            self.refused(lambda: self.pool.free_blocks([*table, free[pick % len(free)]]), "double free")
            self.refused(lambda: self.pool.cache_full_blocks([free[0]], [b"x"], 0, 1), "no owner")
        if table:
            once_too_often = [table[pick % len(table)]] * table[pick % len(table)].ref_cnt
            self.refused(lambda: self.pool.free_blocks([*table, *once_too_often]), "double free")
            self.refused(lambda: self.pool.cache_full_blocks(table, [], 0, len(table)), "cannot cache")

    def refused(self, call, why):
        before = state_of_pool(self.pool)
        with pytest.raises(ValueError, match=why):
            call()
        assert state_of_pool(self.pool) == before

    @invariant()
    def consistent(self):
        if hasattr(self, "pool"):
            check_pool(self.pool, self.tables)

    def teardown(self):
        if hasattr(self, "pool"):
            for table in self.tables:
                self.pool.free_blocks(table)
            assert self.pool.get_num_free_blocks() == self.pool.num_gpu_blocks - 1


class ManagerMachine(RuleBasedStateMachine):
    """Requests that are admitted in chunks, decode, are preempted, resume and finish, over one pool."""

    @initialize(num_blocks=st.integers(2, 12), block_size=st.integers(1, 4), caching=st.booleans())
    def start(self, num_blocks, block_size, caching):
        self.block_size, self.caching = block_size, caching
        self.pool = BlockPool(num_blocks, caching)
        self.manager = KVCacheManager(self.pool, block_size, LIMIT, caching)
        self.running, self.waiting = [], []
        self.num_requests = 0
        self.named = {}  # block id -> all tokens up to its end, as of when it got its hash

    @rule(tokens=TOKENS)
    def arrive(self, tokens):
        self.num_requests += 1
        self.waiting.append(
            Request(
                f"r{self.num_requests}",
                tokens,
                SamplingParams(),
                block_size=self.block_size,
                enable_caching=self.caching,
            )
        )

    @precondition(lambda self: self.waiting)
    @rule(pick=PICK, chunk=st.integers(1, 20), all_must_fit=st.booleans())
    def admit(self, pick, chunk, all_must_fit):
        request = self.waiting[pick % len(self.waiting)]
        before = state_of(self.manager)
        hits, num_hit = self.manager.get_computed_blocks(request)
        assert state_of(self.manager) == before, "looking up changes nothing"
        assert num_hit == len(hits) * self.block_size < request.num_tokens, "the last token is always computed"
        for i, block in enumerate(hits):
            assert self.named[block.block_id] == request.all_token_ids[: (i + 1) * self.block_size]
        n = min(chunk, request.num_tokens - num_hit)
        new = self.manager.allocate_slots(request, n, new_computed_blocks=hits, full_sequence_must_fit=all_must_fit)
        if new is None:
            assert state_of(self.manager) == before, "a refusal changes nothing"
            tokens = request.num_tokens if all_must_fit else num_hit + n
            taken = sum(block.ref_cnt == 0 for block in hits)
            assert -(-tokens // self.block_size) - len(hits) + taken > self.pool.get_num_free_blocks(), (
                "it would have fit"
            )
            return
        assert self.manager.req_to_blocks[request.request_id] == hits + new
        self.waiting.remove(request)
        self.running.append(request)
        request.num_computed_tokens = num_hit
        self.computed(request, n)

    @precondition(lambda self: self.running)
    @rule(pick=PICK, token=st.integers(0, 1), chunk=st.integers(1, 20))
    def go_on(self, pick, token, chunk):
        """The next chunk of a prompt, or one sampled token."""
        request = self.running[pick % len(self.running)]
        if request.num_computed_tokens == request.num_tokens:
            if request.num_tokens == LIMIT:
                return
            request.append_output_token(token)
        n = min(chunk, request.num_tokens - request.num_computed_tokens)
        before = state_of(self.manager)
        table = list(self.manager.req_to_blocks[request.request_id])
        new = self.manager.allocate_slots(request, n)
        if new is None:
            assert state_of(self.manager) == before, "a refusal changes nothing"
            self.leave(request)
            self.waiting.append(request)
            return
        assert self.manager.req_to_blocks[request.request_id] == table + new, "a table only grows"
        self.computed(request, n)

    @precondition(lambda self: self.running)
    @rule(pick=PICK)
    def preempt(self, pick):
        request = self.running[pick % len(self.running)]
        self.leave(request)
        self.waiting.append(request)

    @precondition(lambda self: self.running)
    @rule(pick=PICK)
    def finish(self, pick):
        request = self.running[pick % len(self.running)]
        self.leave(request)
        request.status = "finished"
        self.refused(lambda: self.manager.allocate_slots(request, 1), "finished")
        self.refused(lambda: self.manager.free(request), "holds no blocks")

    @rule()
    def forget(self):
        assert self.manager.reset_prefix_cache() is not bool(self.running)

    @rule(tokens=TOKENS, pick=PICK)
    def make_a_mistake(self, tokens, pick):
        stranger = Request(
            "stranger", tokens, SamplingParams(), block_size=self.block_size, enable_caching=self.caching
        )
        self.refused(lambda: self.manager.free(stranger), "unknown")
        for n in (0, -1, LIMIT + 1):
            self.refused(lambda n=n: self.manager.allocate_slots(stranger, n), "at least 1")
        stranger.num_computed_tokens = 1
        self.refused(lambda: self.manager.allocate_slots(stranger, 1), "unknown")
        if self.running:
            request = self.running[pick % len(self.running)]
            self.refused(lambda: self.manager.allocate_slots(request, LIMIT), "at most max_model_len")
            self.refused(lambda: self.manager.allocate_slots(request, -3), "at least 1")

    def computed(self, request, n):
        request.num_computed_tokens += n
        table = self.manager.req_to_blocks[request.request_id]
        assert len(table) == -(-request.num_computed_tokens // self.block_size)
        if self.caching:
            for i in range(request.num_computed_tokens // self.block_size):
                assert table[i].block_hash == request.block_hashes[i], "every full block has its name"
                self.named[table[i].block_id] = request.all_token_ids[: (i + 1) * self.block_size]

    def leave(self, request):
        self.manager.free(request)
        self.running.remove(request)
        request.num_computed_tokens = 0

    def refused(self, call, why):
        before = state_of(self.manager)
        with pytest.raises(ValueError, match=why):
            call()
        assert state_of(self.manager) == before

    @invariant()
    def consistent(self):
        if not hasattr(self, "pool"):
            return
        assert (
            set(self.manager.req_to_blocks)
            == set(self.manager.num_cached_block)
            == {r.request_id for r in self.running}
        )
        check_pool(self.pool, list(self.manager.req_to_blocks.values()))
        for block in self.pool.blocks:
            if block.block_hash is not None:
                assert block.block_hash == hash_of_prefix(self.named[block.block_id], self.block_size)
                assert self.pool.get_cached_block(block.block_hash).block_hash == block.block_hash

    def teardown(self):
        if hasattr(self, "pool"):
            for request in list(self.running):
                self.leave(request)
            assert self.pool.get_num_free_blocks() == self.pool.num_gpu_blocks - 1, "nothing is leaked"


class SchedulerMachine(RuleBasedStateMachine):
    """The scheduler over all of it: arrivals, steps, aborts."""

    @initialize(
        num_blocks=st.integers(7, 14),
        block_size=st.integers(3, 4),
        caching=st.booleans(),
        max_num_seqs=st.integers(1, 4),
        budget=st.integers(1, 12),
    )
    def start(self, num_blocks, block_size, caching, max_num_seqs, budget):
        # At most LIMIT - 1 tokens are computed: 6 blocks of 3 hold one request, so that nobody waits for ever.
        self.block_size, self.caching, self.max_num_seqs, self.budget = block_size, caching, max_num_seqs, budget
        self.pool = BlockPool(num_blocks, caching)
        self.manager = KVCacheManager(self.pool, block_size, LIMIT, caching)
        self.scheduler = Scheduler(
            self.manager, max_num_seqs=max_num_seqs, max_num_batched_tokens=budget, max_model_len=LIMIT
        )
        self.unfinished = {}
        self.num_requests = 0

    @rule(tokens=TOKENS, max_tokens=st.integers(1, 20))
    def arrive(self, tokens, max_tokens):
        request = Request(
            f"r{self.num_requests}",
            tokens,
            SamplingParams(max_tokens=max_tokens),
            block_size=self.block_size,
            enable_caching=self.caching,
        )
        self.num_requests += 1
        self.unfinished[request.request_id] = request
        self.scheduler.add_request(request)

    @rule(token=st.integers(0, 1), stop=st.booleans())
    def step(self, token, stop):
        output = self.scheduler.schedule()
        scheduled = output.num_scheduled_tokens
        assert sum(scheduled.values()) <= self.budget and all(n > 0 for n in scheduled.values())
        assert len(self.scheduler.running) <= self.max_num_seqs
        assert not output.preempted or not output.admitted, "a step that preempts admits nobody"
        assert all(request.request_id not in scheduled for request in output.preempted)
        sampled = {}
        for request_id, n in scheduled.items():
            request = self.unfinished[request_id]
            end = request.num_computed_tokens + n
            assert end <= min(request.num_tokens, LIMIT - 1)
            assert len(self.manager.get_block_ids(request_id)) >= -(-end // self.block_size)
            if end == request.num_tokens:
                sampled[request_id] = token
        finished = self.scheduler.update_from_output(output, sampled, is_stop=lambda request: stop)
        for request in finished:
            assert request.finish_reason in ("stop", "length")
            del self.unfinished[request.request_id]

    @rule(pick=PICK)
    def abort(self, pick):
        assert self.scheduler.abort("stranger") is None
        if self.unfinished:
            request_id = list(self.unfinished)[pick % len(self.unfinished)]
            assert self.scheduler.abort(request_id) is self.unfinished.pop(request_id)

    @invariant()
    def consistent(self):
        if hasattr(self, "pool"):
            names = [request.request_id for request in (*self.scheduler.running, *self.scheduler.waiting)]
            assert sorted(names) == sorted(self.unfinished), "every request runs or waits, once"
            assert set(self.manager.req_to_blocks) == {request.request_id for request in self.scheduler.running}
            check_pool(self.pool, list(self.manager.req_to_blocks.values()))

    def teardown(self):
        if hasattr(self, "pool"):
            for _ in range(2000):
                if not self.scheduler.has_unfinished_requests():
                    break
                self.step(0, False)
            assert not self.unfinished, "everybody finishes"
            assert self.pool.get_num_free_blocks() == self.pool.num_gpu_blocks - 1, "nothing is leaked"


TestPool = pytest.mark.slow(PoolMachine.TestCase)
TestManager = pytest.mark.slow(ManagerMachine.TestCase)
TestScheduler = pytest.mark.slow(SchedulerMachine.TestCase)
TestPool.settings = TestManager.settings = TestScheduler.settings = MACHINE
