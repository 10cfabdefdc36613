"""Replaying a trace gives exactly the state of the live manager, after every completed operation of any run."""

import json

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.kv import BlockPool, KVCacheManager, observed_order
from pagedlab.kv.observed import ObservedBlockPool, ObservedKVCacheManager
from pagedlab.trace import MemoryState, Recorder, load, replay, save
from pagedlab.trace import events as ev

TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=14)
PICK = st.integers(0, 1 << 16)
LIMIT = 18


class AllToTheTail(BlockPool):
    """A learner's pool that knows no rule: whatever is freed is handed out last, in the order of its ids."""

    def free_blocks(self, ordered_blocks):
        for block in ordered_blocks:
            block.ref_cnt -= 1
        self.free_block_queue.append_n(sorted((b for b in ordered_blocks if b.ref_cnt == 0), key=lambda b: b.block_id))


class AllToTheHead(BlockPool):
    """The opposite: whatever is freed is handed out next, hash or not."""

    def free_blocks(self, ordered_blocks):
        for block in ordered_blocks:
            block.ref_cnt -= 1
        self.free_block_queue.prepend_n([block for block in ordered_blocks if block.ref_cnt == 0])


class CountsTwice(AllToTheTail):
    """A faulty pool: a block that is shared gets two owners more, so that it is never free again."""

    def touch(self, blocks):
        super().touch(blocks)
        for block in blocks:
            block.ref_cnt += 1


class ForgetsAtOnce(BlockPool):
    """A pool that forgets a block's hash as soon as nobody owns it."""

    def free_blocks(self, ordered_blocks):
        super().free_blocks(ordered_blocks)
        self.evict_blocks([block for block in ordered_blocks if block.ref_cnt == 0])


class FromTheTail(BlockPool):
    """A pool that hands out what was used last, from the other end of the queue."""

    def get_new_blocks(self, num_blocks):
        queue = self.free_block_queue
        if num_blocks > queue.num_free_blocks:
            raise ValueError("too few")
        blocks = queue.get_all_free_blocks()[::-1][:num_blocks]
        for block in blocks:
            queue.remove(block)
            block.ref_cnt = 1
            self.evict_blocks([block])
        return blocks


class LowestNumberFirst(BlockPool):
    """A pool that keeps its queue sorted, so that what is freed lands anywhere in it."""

    def free_blocks(self, ordered_blocks):
        super().free_blocks(ordered_blocks)
        queue = self.free_block_queue
        queue.append_n(sorted(queue.popleft_n(queue.num_free_blocks), key=lambda block: block.block_id))


class ListQueue:
    """A free queue without links."""

    def __init__(self, blocks):
        self.blocks = list(blocks)

    @property
    def num_free_blocks(self):
        return len(self.blocks)

    def popleft_n(self, n):
        if n > len(self.blocks):
            raise ValueError("too few")
        taken, self.blocks = self.blocks[:n], self.blocks[n:]
        return taken

    def remove(self, block):
        self.blocks.remove(block)

    def append_n(self, blocks):
        self.blocks += blocks

    def prepend_n(self, blocks):
        self.blocks[:0] = blocks

    def get_all_free_blocks(self):
        return list(self.blocks)


class OwnBlock:
    """A record with what the manager and the observer need, and no more."""

    is_null = False

    def __init__(self, block_id):
        self.block_id, self.ref_cnt, self.block_hash = block_id, 0, None


class LastNumberFirstInAList(BlockPool):
    """A pool of records and on a queue of its own, which is turned round from the start."""

    def __init__(self, num_gpu_blocks, enable_caching=True):
        super().__init__(num_gpu_blocks, enable_caching)
        self.blocks = [OwnBlock(i) for i in range(num_gpu_blocks)]
        self.null_block = self.blocks[0]
        self.free_block_queue = ListQueue(self.blocks[:0:-1])

    def get_new_blocks(self, num_blocks):
        blocks = self.free_block_queue.popleft_n(num_blocks)
        for block in blocks:
            block.ref_cnt = 1
            self.evict_blocks([block])
        return blocks

    def evict_blocks(self, blocks):
        for block in blocks:
            if block.block_hash is not None:
                self._drop_hash(block)

    def free_blocks(self, ordered_blocks):
        for block in ordered_blocks:
            block.ref_cnt -= 1
        self.free_block_queue.append_n([block for block in ordered_blocks if block.ref_cnt == 0])

    def cache_full_blocks(self, blocks, block_hashes, first, end):
        for block, block_hash in zip(blocks[first:end], block_hashes[first:end], strict=True):
            block.block_hash = block_hash
            self.cached_block_hash_to_blocks.setdefault(block_hash, []).append(block)


class TurnsRound(BlockPool):
    """A pool that turns its whole queue round whenever a block is found again: blocks move that no call has named."""

    def touch(self, blocks):
        super().touch(blocks)
        queue = self.free_block_queue
        queue.append_n(queue.popleft_n(queue.num_free_blocks)[::-1])


POOLS = [
    BlockPool,
    AllToTheTail,
    AllToTheHead,
    CountsTwice,
    ForgetsAtOnce,
    FromTheTail,
    LowestNumberFirst,
    LastNumberFirstInAList,
    TurnsRound,
]


class ObservedMachine(RuleBasedStateMachine):
    """An observed manager, and beside it the state folded from its events."""

    @initialize(
        num_blocks=st.integers(2, 12),
        block_size=st.integers(1, 4),
        caching=st.booleans(),
        pool=st.sampled_from(POOLS),
        few=st.sampled_from([0, observed_order.FEW]),
    )
    def start(self, num_blocks, block_size, caching, pool, few):
        # With 0 a queue is not looked at whole before something else is noticed, or many blocks have moved.
        self.few = observed_order.FEW
        observed_order.FEW = self.few if pool is TurnsRound else few
        self.block_size, self.caching = block_size, caching
        self.recorder = Recorder(
            {"schema": ev.SCHEMA_VERSION, "config": {"num_blocks": num_blocks, "block_size": block_size}}
        )
        self.state = MemoryState.initial(num_blocks, block_size)
        self.recorder.subscribe(self.state.apply)
        self.pool = pool(num_blocks, caching)
        observed_pool = ObservedBlockPool(self.pool, block_size, self.recorder)
        self.manager = ObservedKVCacheManager(
            KVCacheManager(observed_pool, block_size, LIMIT, caching), observed_pool, self.recorder
        )
        self.requests = []
        self.num_requests = 0

    @rule(tokens=TOKENS)
    def arrive(self, tokens):
        name = f"r{self.num_requests}"
        self.num_requests += 1
        self.requests.append(
            Request(name, tokens, SamplingParams(), block_size=self.block_size, enable_caching=self.caching)
        )
        self.recorder.emit(
            ev.RequestArrived(request_id=name, token_ids=tuple(tokens), texts=tuple(map(str, tokens)), max_tokens=1)
        )
        self.compare()

    @precondition(lambda self: self.requests)
    @rule(pick=PICK, token=st.integers(0, 1))
    def allocate(self, pick, token):
        """Admit, or go on by a token."""
        request = self.requests[pick % len(self.requests)]
        if request.num_computed_tokens == 0:
            hits, num_hit = self.manager.get_computed_blocks(request)
            new = self.manager.allocate_slots(request, request.num_tokens - num_hit, new_computed_blocks=hits)
        elif request.num_tokens < LIMIT:
            request.append_output_token(token)
            new = self.manager.allocate_slots(request, 1)
        else:
            return
        if new is not None:
            request.num_computed_tokens = request.num_tokens
        self.compare()

    @precondition(lambda self: any(r.num_computed_tokens for r in self.requests))
    @rule(pick=PICK, finish=st.booleans())
    def free(self, pick, finish):
        running = [request for request in self.requests if request.num_computed_tokens]
        request = running[pick % len(running)]
        self.manager.free(request)
        request.num_computed_tokens = 0
        if finish:
            self.requests.remove(request)
        self.compare()

    @rule()
    def forget(self):
        self.manager.reset_prefix_cache()
        self.compare()

    def compare(self):
        live = self.manager
        assert self.state.tables == {name: live.get_block_ids(name) for name in live.req_to_blocks}
        assert self.state.ref_cnt == [block.ref_cnt for block in self.pool.blocks]
        assert self.state.free == [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()]
        assert self.state.cached == {
            block.block_id: block.block_hash.hex() for block in self.pool.blocks if block.block_hash is not None
        }

    def teardown(self):
        if hasattr(self, "recorder"):
            observed_order.FEW = self.few
            assert replay(self.recorder.trace) == self.state, "from the start, the same as event by event"


TestReplayEqualsLive = pytest.mark.slow(ObservedMachine.TestCase)
TestReplayEqualsLive.settings = settings(
    max_examples=1000, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def small_run() -> Recorder:
    """Three requests that share a beginning, the first of which is over."""
    recorder = Recorder({"schema": ev.SCHEMA_VERSION, "config": {"num_blocks": 8, "block_size": 2}})
    pool = ObservedBlockPool(BlockPool(8), 2, recorder)
    manager = ObservedKVCacheManager(KVCacheManager(pool, 2, 64), pool, recorder)
    for name, tokens in (("A", [1, 2, 3, 4, 5]), ("B", [1, 2, 3, 4, 6]), ("C", [1, 2, 9])):
        request = Request(name, tokens, SamplingParams(), block_size=2)
        recorder.emit(
            ev.RequestArrived(request_id=name, token_ids=tuple(tokens), texts=("",) * len(tokens), max_tokens=1)
        )
        hits, num_hit = manager.get_computed_blocks(request)
        manager.allocate_slots(request, len(tokens) - num_hit, new_computed_blocks=hits)
        if name == "A":
            manager.free(request)
    return recorder


def test_a_saved_trace_replays_to_the_same_state(tmp_path):
    trace = small_run().trace
    assert replay(load(save(trace, tmp_path / "run.jsonl.gz"))) == replay(trace)


def test_a_trace_from_before_counts_were_recorded_replays_to_the_same_state(tmp_path):
    trace = small_run().trace
    lines = [json.loads(line) for line in save(trace, tmp_path / "run.jsonl").read_text().splitlines()]
    assert any("ref_cnt" in line for line in lines)
    old = "\n".join(json.dumps({k: v for k, v in line.items() if k != "ref_cnt"}) for line in lines)
    (tmp_path / "old.jsonl").write_text(old)
    assert replay(load(tmp_path / "old.jsonl")) == replay(trace)


def test_an_event_has_what_the_pool_counts_below_0_too(tmp_path):
    recorder = Recorder({"schema": ev.SCHEMA_VERSION, "config": {"num_blocks": 4, "block_size": 2}})
    recorder.emit(ev.RequestArrived(request_id="A", token_ids=(7,), texts=("",), max_tokens=1))
    pool = ObservedBlockPool(AllToTheTail(4), 2, recorder)
    pool.request_id = "A"
    blocks = pool.get_new_blocks(2)
    pool.touch(blocks[:1])
    pool.free_blocks(blocks)
    pool.free_blocks(blocks[1:])  # a second time
    counts = [e.ref_cnt for e in recorder.trace.events[1:]]
    assert counts == [(1, 1), 2, (1, 0), (-1,)]
    assert replay(load(save(recorder.trace, tmp_path / "run.jsonl"))).ref_cnt == [0, 1, -1, 0]


def test_a_pool_that_nobody_watches_is_left_as_it_was():
    pool = BlockPool(8)
    observed = ObservedBlockPool(pool, 2, Recorder({}))
    assert observed.get_new_blocks(2) == pool.blocks[1:3]
    assert observed.get_usage() == pool.get_usage() == 2 / 7
    assert "get_new_blocks" not in vars(pool)
