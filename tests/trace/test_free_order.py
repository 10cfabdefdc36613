"""A pool with an order of its own is no contradiction; a wrong pool is one still, or breaks a rule."""

import random
from types import SimpleNamespace

import pytest

from pagedlab.engine import LLM, BeamSearchParams, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.kv import BlockPool, observed_order
from pagedlab.kv.observed import FreeBlockQueueView, ObservedBlockPool
from pagedlab.kv.observed_order import elsewhere
from pagedlab.kv.observed_paper import FreeBlockStackView
from pagedlab.kv.paper import BlockAllocator
from pagedlab.trace import MemoryState, Recorder, Trace, replay
from pagedlab.trace import events as ev
from pagedlab.trace.invariants import first_broken
from pagedlab.viz.kit.narrator import in_brief


def state_with(*events, num_blocks=6, **config):
    header = {"config": {"num_blocks": num_blocks, "block_size": 2} | config}
    return replay(Trace(header, list(events)))


def free_ids(pool):
    return [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]


def test_blocks_stand_where_the_event_says_and_the_others_keep_their_order():
    assert state_with().free == [1, 2, 3, 4, 5]
    assert state_with(ev.FreeQueueReordered(block_ids=(4,), places=(0,))).free == [4, 1, 2, 3, 5]
    assert state_with(ev.FreeQueueReordered(block_ids=(5, 1), places=(1, 4))).free == [2, 5, 3, 4, 1]
    moved = ev.FreeQueueReordered(block_ids=(0,), places=(1,), pool="cpu")
    assert state_with(moved, era="paper", num_cpu_blocks=3).cpu.free == [2, 0, 1]
    assert not state_with().has_own_order and state_with(moved, era="paper", num_cpu_blocks=3).has_own_order


@pytest.mark.parametrize(
    ("block_ids", "places"),
    [((0,), (0,)), ((9,), (0,)), ((3, 3), (0, 1)), ((3,), (5,)), ((3, 4), (2, 1)), ((3, 4), (0,))],
    ids=["not free", "no block", "twice", "no place", "turned round", "too few places"],
)
def test_what_cannot_be_an_order_of_the_free_blocks_contradicts_the_trace(block_ids, places):
    with pytest.raises(PagedlabError, match="contradicts itself"):
        state_with(ev.FreeQueueReordered(block_ids=block_ids, places=places))


def test_blocks_that_are_not_the_head_contradict_the_trace_where_no_event_says_so():
    arrived = ev.RequestArrived(request_id="A", token_ids=(1,), texts=("",), max_tokens=1)
    taken = ev.BlocksAllocated(request_id="A", block_ids=(4,))
    with pytest.raises(PagedlabError, match="not the head"):
        state_with(arrived, taken)
    assert state_with(arrived, ev.FreeQueueReordered(block_ids=(4,), places=(0,)), taken).free == [1, 2, 3, 5]


@pytest.mark.parametrize("seed", range(20))
def test_the_event_moves_one_order_into_any_other(seed):
    draw = random.Random(seed)
    implied = list(range(1, 9))
    found = draw.sample(implied, len(implied))
    for loose in (set(), {found[0]}, set(found)):
        places = elsewhere(implied, found, loose)
        event = ev.FreeQueueReordered(block_ids=tuple(found[place] for place in places), places=places)
        assert state_with(event, num_blocks=9).free == found


def test_only_the_blocks_that_a_call_moved_are_told_where_that_is_enough():
    assert elsewhere([1, 2, 3, 4, 7, 8], [1, 7, 2, 3, 8, 4], {7, 8}) == (1, 4)
    assert elsewhere([7, 1, 2, 3, 8], [7, 1, 8, 2, 3], {7, 8}) == (2,)
    assert elsewhere([1, 2, 3, 4, 7], [1, 3, 2, 7, 4], {7}) == (1, 2, 3, 4)


class TurnsTwo(BlockPool):
    """Changes two blocks in the middle of the queue, which nobody asked for."""

    def free_blocks(self, ordered_blocks):
        super().free_blocks(ordered_blocks)
        queue = self.free_block_queue
        free = queue.popleft_n(queue.num_free_blocks)
        free[20], free[21] = free[21], free[20]
        queue.append_n(free)


def test_what_is_not_noticed_at_once_is_noticed_when_a_block_is_handed_out_in_another_turn():
    recorder = Recorder({"config": {"num_blocks": 100, "block_size": 2}})
    recorder.emit(ev.RequestArrived(request_id="A", token_ids=(1,), texts=("",), max_tokens=1))
    inner = TurnsTwo(100)
    pool = ObservedBlockPool(inner, 2, recorder)
    pool.request_id = "A"
    assert 99 > observed_order.FEW, "else it is looked at whole"
    pool.free_blocks(pool.get_new_blocks(1))
    assert replay(recorder.trace).free != free_ids(inner) and not replay(recorder.trace).has_own_order
    pool.get_new_blocks(30)
    assert replay(recorder.trace).free == free_ids(inner) and replay(recorder.trace).has_own_order


def test_or_when_many_blocks_have_moved_since():
    recorder = Recorder({"config": {"num_blocks": 100, "block_size": 2}})
    recorder.emit(ev.RequestArrived(request_id="A", token_ids=(1,), texts=("",), max_tokens=1))
    pool = ObservedBlockPool(BlockPool(100), 2, recorder)
    pool.request_id = "A"
    queue = pool.free_block_queue
    for block in queue.popleft_n(50):
        queue.append_n([block])  # behind the observer's back
    middle = queue.get_all_free_blocks()[50]
    queue.remove(middle)
    queue.append_n([middle])
    pool.free_blocks(pool.get_new_blocks(1))  # the ends are others: noticed
    assert replay(recorder.trace).free == free_ids(pool)
    free = queue.popleft_n(queue.num_free_blocks)
    queue.append_n([*free[:40], *free[59:39:-1], *free[60:]])  # and here they are not
    wrong = 0
    for _ in range(observed_order.TURNS * 99):
        pool.free_blocks(pool.get_new_blocks(1))
        wrong += replay(recorder.trace).free != free_ids(pool)
    assert 1 < wrong < observed_order.TURNS * 99
    assert replay(recorder.trace).free == free_ids(pool)


ENDS = [
    ([1, 2], [7, 8], True),
    ([1, 2, 3], [6, 7, 8], True),
    ([2, 3], [7, 8], False),  # not the head
    ([1, 3], [7, 8], False),
    ([1, 2, 4], [7, 8], False),
    ([1, 2], [6, 7], False),  # not the tail
    ([1, 2], [6, 8], False),
    ([1, 2], [5, 7, 8], False),
    ([1, 2], [8, 7], False),
    ([2, 1], [7, 8], False),
]


@pytest.mark.parametrize(("head", "tail", "is_so"), ENDS)
def test_ends_are_confirmed_where_they_are_so(head, tail, is_so):
    pool = BlockPool(9)
    assert FreeBlockQueueView(pool).confirms(head, tail) == is_so
    allocator = BlockAllocator(9)
    allocator.free_blocks = [allocator.blocks[number] for number in range(8, 0, -1)]
    assert FreeBlockStackView(allocator).confirms(head, tail) == is_so


def test_nothing_is_confirmed_of_a_block_that_left_and_kept_its_links():
    pool = BlockPool(9)
    first, last, queue = pool.blocks[1], pool.blocks[8], pool.free_block_queue
    before, after = first.prev_free_block, last.next_free_block
    queue.remove(first)
    queue.remove(last)
    assert FreeBlockQueueView(pool).confirms([2, 3], [6, 7])
    first.prev_free_block, first.next_free_block = before, pool.blocks[2]
    last.prev_free_block, last.next_free_block = pool.blocks[7], after
    assert not FreeBlockQueueView(pool).confirms([1, 2], [6, 7])
    assert not FreeBlockQueueView(pool).confirms([2, 3], [7, 8])


class Fifo(BlockAllocator):
    """What was free for longest goes first: a queue where the paper's era has a stack."""

    def free(self, block):
        super().free(block)
        if block.ref_cnt == 0:
            self.free_blocks.insert(0, self.free_blocks.pop())


class FifoOnADeque:
    """The same without a list to look at."""

    def __init__(self, num_blocks):
        self._fifo = Fifo(num_blocks)
        self.blocks = self._fifo.blocks
        self.allocate, self.free = self._fifo.allocate, self._fifo.free

    def get_num_free_blocks(self):
        return self._fifo.get_num_free_blocks()

    def get_free_block_ids(self):
        return self._fifo.get_free_block_ids()


@pytest.mark.parametrize("few", [0, observed_order.FEW])
@pytest.mark.parametrize("allocator", [BlockAllocator, Fifo, FifoOnADeque])
def test_a_pool_of_the_papers_era_may_have_its_own_order_too(monkeypatch, allocator, few):
    monkeypatch.setattr(observed_order, "FEW", few)
    llm = LLM(
        "tiny-random",
        record=True,
        era="paper",
        block_pool=allocator,
        preemption="swap",
        block_size=2,
        num_gpu_blocks_override=16,
        num_cpu_blocks_override=12,
        max_model_len=32,
    )
    state = MemoryState.of(llm.trace.header["config"])
    llm.recorder.subscribe(state.apply)
    sampled = SamplingParams(n=2, temperature=1.0, max_tokens=8, ignore_eos=True)
    for params in (sampled, BeamSearchParams(beam_width=2, max_tokens=8), sampled):
        llm.add_request([1, 2, 3, 4, 5], params)
    while llm.has_unfinished_requests():
        llm.step()
        manager = llm.kv_cache_manager
        assert state.free == manager.gpu_allocator.get_free_block_ids()[::-1]
        assert state.cpu.free == manager.cpu_allocator.get_free_block_ids()[::-1]
    assert {"blocks_swapped_out", "blocks_swapped_in", "block_copied"} <= state.counts.keys()
    assert state.has_own_order == (allocator is not BlockAllocator)
    assert first_broken(llm.trace) is None


class EmptyOnesInTurn(BlockPool):
    """Blocks without a hash go first, as in vLLM, but the one that was freed last is the last of them."""

    def free_blocks(self, ordered_blocks):
        super().free_blocks(ordered_blocks)
        queue = self.free_block_queue
        free = queue.popleft_n(queue.num_free_blocks)
        empty = [block for block in free if not block.is_cached]
        queue.append_n([*empty[1:], *empty[:1], *(block for block in free if block.is_cached)])


class AndForgetsOwners(EmptyOnesInTurn):
    def touch(self, blocks):
        for block in blocks:
            if block.ref_cnt == 0:
                self.free_block_queue.remove(block)
                block.ref_cnt = 1


class AndLosesBlocks(EmptyOnesInTurn):
    def free_blocks(self, ordered_blocks):
        super().free_blocks(ordered_blocks)
        self.free_block_queue.popleft()


class AndForgetsTheStartFirst(EmptyOnesInTurn):
    def get_new_blocks(self, num_blocks):
        queue = self.free_block_queue
        queue.append_n(queue.popleft_n(queue.num_free_blocks)[::-1])
        blocks = super().get_new_blocks(num_blocks)
        queue.append_n(queue.popleft_n(queue.num_free_blocks)[::-1])
        return blocks


@pytest.mark.parametrize("few", [0, observed_order.FEW])
@pytest.mark.parametrize(
    ("pool", "rule"),
    [
        (EmptyOnesInTurn, None),
        (AndForgetsOwners, "owners"),
        (AndLosesBlocks, "lost"),
        (AndForgetsTheStartFirst, "reachable"),
    ],
)
def test_an_order_of_its_own_hides_no_fault(monkeypatch, pool, rule, few):
    monkeypatch.setattr(observed_order, "FEW", few)
    llm = LLM("tiny-random", record=True, block_size=2, num_gpu_blocks_override=24, block_pool=pool)
    params = SamplingParams(max_tokens=3, ignore_eos=True)
    prompts = [[1, 2, 3, 4, 5], [1, 2, 3, 4, 6], [1, 2, 7], [8, 9, 8, 9], [1, 2, 3, 4, 5]]
    for _ in range(2):
        try:
            llm.generate(prompts, params)
        except ValueError:
            break  # a faulty pool may come to an end by itself
    found = first_broken(llm.trace)
    assert (found and found.rule) == rule
    if rule is None:
        assert replay(llm.trace).has_own_order and len(llm.trace.step_ends()) > 5


def test_the_story_says_that_the_pool_has_its_own_order():
    state = SimpleNamespace(requests={}, era="v1")
    one = ev.FreeQueueReordered(block_ids=(5,), places=(2,))
    start = "The pool hands out its free blocks in an order of its own: it"
    assert in_brief([one], state) == f"{start} put #5 in the 3rd place."
    assert in_brief([one, ev.FreeQueueReordered(block_ids=(7, 5), places=(0, 1))], state) == f"{start} moved #5 and #7."
