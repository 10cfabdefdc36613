"""The runs that exercises ask about are puzzles for every seed, and run on a learner's parts."""

import pytest

from pagedlab.grading import CheckFailed, check, checks
from pagedlab.grading.exercises import ex02, ex06, ex07
from pagedlab.grading.exercises.ex02.story import facts as facts02
from pagedlab.grading.exercises.ex06.story import facts as facts06
from pagedlab.grading.exercises.ex07.story import facts as facts07
from pagedlab.kv import BlockPool, cow
from pagedlab.kv.paper import BlockAllocator, BlockSpaceManager


@pytest.fixture(autouse=True)
def fresh_kernel(monkeypatch):
    monkeypatch.setattr(checks, "_verdicts", {})
    monkeypatch.setattr(checks, "_broken", {})


def texts(llm):
    return [(e.request_id, e.token_id) for e in llm.trace.events if e.kind == "token_sampled"]


@pytest.mark.parametrize("seed", range(6))
def test_the_places_of_02_lie_behind_the_first_block_and_inside_one(seed):
    truth = facts02(seed)
    name, position = truth.value_of
    assert truth.puzzle.asked[0] > 4 and truth.puzzle.asked[0] % 4
    assert 4 < position < truth.puzzle.num_tokens[name] and position % 4


def test_attention_of_02_reads_where_it_is_told():
    def find(pool, table, position, layer, k_or_v, head):
        block, offset = table[position // 4], position % 4
        at = (layer, k_or_v, block, offset, head)
        return 4 * sum(i * stride for i, stride in zip(at, pool.data.stride(), strict=False))

    def first_token_only(pool, table, position, layer, k_or_v, head):
        return find(pool, table, 0, layer, k_or_v, head)

    assert texts(ex02.story(47, find=find)) == texts(ex02.story(47))
    assert texts(ex02.story(47, find=first_token_only)) != texts(ex02.story(47))


@pytest.mark.parametrize("seed", range(6))
def test_in_06_all_but_the_last_writer_copy_the_block_that_is_not_full(seed):
    truth = facts06(seed)
    before = list(truth.puzzle.tables.values())
    assert before[0] == before[1] == before[2] and truth.puzzle.num_prompt_tokens % 4
    assert [source for source, _ in truth.copies] == [before[0][-1]] * 2
    assert truth.tables[2] == before[2]


def test_06_runs_on_a_learners_allocator_fork_and_append_slot():
    class Manager(BlockSpaceManager):
        def fork(self, parent, child):
            self.block_tables[child.request_id] = cow.fork_table(self.block_tables[parent.request_id])

    class Mine(BlockAllocator):
        pass

    llm = ex06.story(47, block_pool=Mine, kv_cache_manager=Manager)
    llm.step()
    assert isinstance(llm.block_pool, Mine)
    assert [list(llm.kv_cache_manager.get_block_table(s)) for s in llm.groups["G"].children] == facts06(47).tables


@pytest.mark.parametrize("seed", range(8))
def test_in_07_something_is_found_and_something_forgotten_and_no_block_is_both(seed):
    truth = facts07(seed)
    told = truth.puzzle
    assert len(truth.hits) == told.num_shared // 4 >= 2
    assert truth.forgotten and truth.new_blocks[-1] == truth.forgotten[-1]
    assert set(truth.hits + truth.new_blocks) <= set(told.free) and not set(truth.hits) & set(truth.new_blocks)
    assert len(truth.hits + truth.new_blocks) == -(-told.num_prompt_tokens // 4)


def test_07_runs_on_a_learners_pool():
    class Mine(BlockPool):
        pass

    llm = ex07.story(47, block_pool=Mine)
    llm.step()
    assert llm.kv_cache_manager.get_block_ids("Z") == facts07(47).hits + facts07(47).new_blocks


@pytest.mark.parametrize(
    "part, wrong, right",
    [
        ("02.3", (0, ("A", 5)), lambda: facts02(47).key_begins),
        ("06.4", ([], [[1], [1], [1]]), lambda: facts06(47).copies),
        ("07.5", ([1, 2], [5], []), lambda: facts07(47).new_blocks),
    ],
)
def test_a_wrong_prediction_is_not_told_the_right_one(part, wrong, right):
    for _ in range(3):  # hints get warmer
        with pytest.raises(CheckFailed) as error:
            check(part, *wrong, seed=47)
        assert str(right()) not in str(error.value)
