"""Exercises 05 and 11: their memories and runs are puzzles for every seed, and the engine runs on a learner's parts."""

import random

import pytest
import torch

from pagedlab.grading import CheckFailed, check, checks
from pagedlab.grading.exercises.ex05.attention import expected
from pagedlab.grading.exercises.ex05.walk import WALK
from pagedlab.grading.exercises.ex11.facts import facts
from pagedlab.grading.tasks import ex11
from pagedlab.grading.tasks.ex05 import walk
from pagedlab.grading.tasks.ex05.memory import build


@pytest.fixture(autouse=True)
def fresh_kernel(monkeypatch):
    monkeypatch.setattr(checks, "_verdicts", {})
    monkeypatch.setattr(checks, "_broken", {})


def test_the_reference_of_05_is_attention_in_every_case_of_its_part():
    for case in WALK.cases(random.Random(5), 0):
        memory = build(case)
        table, scale = memory.tables[0], case["head_size"] ** -0.5

        def read(block, memory=memory):
            return memory.key[block, :, 0], memory.value[block, :, 0]

        found = walk(memory.query[0, 0], read, table, case["lengths"][0], scale)
        right = expected(case, memory, scale)[0, 0]
        torch.testing.assert_close(found.double(), right, atol=1e-4, rtol=1e-4)


def test_rising_cases_of_05_bring_a_new_largest_score_in_every_block():
    for case in WALK.cases(random.Random(6), 0):
        if case["kind"] == "rising":
            memory = build(case)
            full = memory.tables[0][: case["lengths"][0] // case["block_size"]]
            largest = [float((memory.key[b, :, 0] @ memory.query[0, 0]).max()) for b in full]
            assert largest == sorted(largest)


@pytest.mark.parametrize("seed", range(6))
def test_in_11_large_blocks_let_fewer_run_and_leave_more_slots_empty(seed):
    truth = facts(seed)
    assert truth.running == sorted(truth.running, reverse=True) and truth.running[0] > truth.running[-1]
    assert truth.empty == sorted(truth.empty) and truth.empty[0] < truth.empty[-1]


def test_the_engine_of_11_has_made_no_step_and_takes_a_learners_parts():
    from pagedlab.kv import BlockPool

    class Mine(BlockPool):
        pass

    llm = ex11.story(47, 16, block_pool=Mine)
    assert llm.step_count == 0
    llm.step()
    assert len(llm.tables) == facts(47).running[1]


def test_a_wrong_prediction_of_11_is_not_told_the_right_one():
    for _ in range(3):  # hints get warmer
        with pytest.raises(CheckFailed) as error:
            check("11.3", [8, 8, 8], [0, 0, 0], seed=47)
        assert str(facts(47).running) not in str(error.value) and str(facts(47).empty) not in str(error.value)
