"""Exercise 09: its sums are those of the course's cards, and what it serves without a model goes as in the engine."""

import random

import pytest

from pagedlab.engine.cards import CARDS, MODELS, Held, plan_card
from pagedlab.grading import CheckFailed, check, checks
from pagedlab.grading.exercises.ex09.choice import CHOICE, fewest, most_runs
from pagedlab.grading.exercises.ex09.facts import facts
from pagedlab.grading.exercises.ex09.pool import POOL, right
from pagedlab.grading.tasks import ex09
from pagedlab.grading.tasks.ex09.served import served
from pagedlab.grading.tasks.ex09.story import ANSWER, BLOCK_SIZE


@pytest.fixture(autouse=True)
def fresh_kernel(monkeypatch):
    monkeypatch.setattr(checks, "_verdicts", {})
    monkeypatch.setattr(checks, "_broken", {})


def test_the_reference_of_part_1_agrees_with_the_courses_cards():
    for card in CARDS:
        for model in MODELS:
            for utilization in (0.3, 0.7, 0.92, 0.97, 1.0):
                plan = plan_card(card, model, gpu_memory_utilization=utilization, held=Held(others=0.3))
                b = plan.budget
                sizes = (b.card, plan.free_at_start, utilization, b.weights, b.activations, b.other, b.bytes_per_block)
                names = ("card", "free", "utilization", "weights", "activations", "other", "block")
                blocks = b.num_blocks if plan.outcome == "fits" else plan.outcome
                assert right(dict(zip(names, sizes, strict=True))) == blocks


@pytest.mark.parametrize("seed", range(5))
def test_part_1_asks_for_every_outcome_and_rounding_decides_none(seed):
    cases = POOL.cases(random.Random(seed), seed)
    assert {"out of memory", "no room"} < {right(case) for case in cases}
    for case in cases:
        for nudge in (-1e-9, 1e-9):
            if case["utilization"] * case["card"] % 1:
                assert right(case | {"utilization": case["utilization"] + nudge}) == right(case)


@pytest.mark.parametrize("seed", range(5))
def test_part_2_has_targets_that_are_met_and_some_that_are_not(seed):
    cases = CHOICE.cases(random.Random(seed), seed)
    best = [fewest(case) for case in cases]
    assert None in best and 0 in best and any(best)
    assert any(len(case["utilizations"]) * len(case["limits"]) > most_runs(case) for case in cases)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_served_without_a_model_goes_as_in_the_engine(seed):
    truth = facts(seed)
    load = [(length, ANSWER) for length in truth.puzzle.prompts]
    for i, limit in enumerate((8, 2, 8)):  # the fourth setting has a prefix cache
        assert served(load, truth.puzzle.pools[i], BLOCK_SIZE, limit)["preemptions"] == truth.preemptions[i]


@pytest.mark.parametrize("seed", range(4))
def test_each_knob_of_part_3_changes_what_runs(seed):
    truth = facts(seed)
    base, narrow, more, cached = truth.running
    assert truth.puzzle.pools[2] > truth.puzzle.pools[0] and narrow == 2
    assert more > base and cached > base
    assert truth.preemptions[0] > truth.preemptions[1] == 0


def test_the_engine_of_part_3_has_made_no_step_and_takes_a_learners_parts():
    from pagedlab.kv import BlockPool

    class Mine(BlockPool):
        pass

    llm = ex09.story(47, 1, block_pool=Mine)
    assert llm.step_count == 0
    llm.step()
    assert len(llm.tables) == facts(47).running[0]


def test_a_wrong_prediction_is_not_told_the_right_one():
    for running in ([5, 5, 5, 5], facts(47).running):
        for _ in range(3):  # hints get warmer
            with pytest.raises(CheckFailed) as error:
                check("09.3", running, [9, 9, 9, 9], seed=47)
            assert str(facts(47).preemptions) not in str(error.value)
