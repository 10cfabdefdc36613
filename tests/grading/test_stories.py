"""The runs that exercises ask about are puzzles for every seed, and run on a learner's parts."""

import pytest

from pagedlab.grading import CheckFailed, check, checks
from pagedlab.grading.exercises.ex01.facts import facts as facts01
from pagedlab.grading.exercises.ex02.facts import facts as facts02
from pagedlab.grading.exercises.ex04.facts import facts as facts04
from pagedlab.grading.exercises.ex06.facts import facts as facts06
from pagedlab.grading.exercises.ex07.facts import facts as facts07
from pagedlab.grading.exercises.ex12.facts import facts as facts12
from pagedlab.grading.tasks import ex02, ex04, ex06, ex07, ex12
from pagedlab.grading.tasks.ex01.story import NUM_SLOTS
from pagedlab.hunt import FAULTS
from pagedlab.kv import BlockPool, cow
from pagedlab.kv.paper import BlockAllocator, BlockSpaceManager
from pagedlab.trace.invariants import first_broken


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
    assert truth.puzzle.wanted_key[0] > 4 and truth.puzzle.wanted_key[0] % 4
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


@pytest.mark.parametrize("seed", range(4))
def test_in_01_somebody_comes_in_and_the_next_fits_nowhere_though_the_sum_would_do(seed):
    truth = facts01(seed)
    came = [start for start in truth.starts if start is not None]
    assert came and truth.starts[-1] is None and sum(truth.account) == NUM_SLOTS
    assert truth.account[3] > 0 == truth.account[4]
    taken = {slot for _, start, length, _, _ in truth.puzzle.regions for slot in range(start, start + length)}
    assert not taken & set(came)


@pytest.mark.parametrize("seed", range(6))
def test_in_04_the_first_who_has_no_room_bars_one_who_would_have(seed):
    truth = facts04(seed)
    prompts = list(truth.puzzle.waiting.values())
    came = truth.now_running - len(truth.puzzle.running)
    assert 1 <= came < len(prompts) and -(-prompts[came] // 4) > truth.blocks_left
    assert any(-(-prompt // 4) <= truth.blocks_left for prompt in prompts[came + 1 :])
    assert truth.now_running < ex04.story(seed).config.max_num_seqs
    assert 0 < truth.empty_slots <= 3 * truth.now_running


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
    question = truth.puzzle
    assert len(truth.hits) == question.num_shared // 4 >= 2
    assert truth.forgotten and truth.new_blocks[-1] == truth.forgotten[-1]
    assert set(truth.hits + truth.new_blocks) <= set(question.free) and not set(truth.hits) & set(truth.new_blocks)
    assert len(truth.hits + truth.new_blocks) == -(-question.num_prompt_tokens // 4)


def test_07_runs_on_a_learners_pool():
    class Mine(BlockPool):
        pass

    llm = ex07.story(47, block_pool=Mine)
    llm.step()
    assert llm.kv_cache_manager.get_block_ids("Z") == facts07(47).hits + facts07(47).new_blocks


@pytest.mark.parametrize(
    "part, wrong, right",
    [
        ("01.3", ([0, None, None], [20, 4, 8, 16, 0]), lambda: facts01(47).account),
        ("02.3", (0, ("A", 5)), lambda: facts02(47).key_begins),
        ("04.4", (6, 1, 20), lambda: facts04(47).blocks_left),
        ("06.4", ([], [[1], [1], [1]]), lambda: facts06(47).copies),
        ("07.5", ([1, 2], [5], []), lambda: facts07(47).new_blocks),
    ],
)
def test_a_wrong_prediction_is_not_told_the_right_one(part, wrong, right):
    for _ in range(3):  # hints get warmer
        with pytest.raises(CheckFailed) as error:
            check(part, *wrong, seed=47)
        assert str(right()) not in str(error.value)


@pytest.mark.parametrize("seed", range(4))
def test_in_12_each_of_ten_runs_has_another_fault_that_shows_where_the_checker_says(seed):
    truth, lined_up = facts12(seed), ex12.runs(seed)
    assert {facts.fault for facts in truth.values()} == set(FAULTS)
    for name, trace in lined_up.items():
        finding = first_broken(trace)
        assert finding.step == truth[name].step and set(finding.block_ids) & set(truth[name].blocks)
