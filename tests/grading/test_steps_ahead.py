"""Exercise 13: what is right is what the package's schedulers do, and the engine lives as it is told there."""

import random
import warnings

import pytest

from pagedlab.engine import LLM, SamplingParams
from pagedlab.executor.counting import CountingExecutor
from pagedlab.grading.exercises.ex13 import ahead, late, samples, step
from pagedlab.grading.grade import grade
from pagedlab.grading.tasks.ex13 import story


@pytest.mark.parametrize("module", [step, samples, ahead, late])
def test_the_same_draw_gives_the_same_cases_and_another_one_others(module):
    one, two, other = (module._cases(random.Random(seed), 47) for seed in (5, 5, 6))
    assert one == two != other and len(one) == len(other)
    assert all(module.right(case) is not None for case in one)


def test_what_decides_is_always_among_the_cases():
    cases = step._cases(random.Random(3), 47)
    left_over = [case for case in cases if not case["chunked"] and len(step.right(case)) < len(case["running"])
                 + len(case["waiting"])]  # fmt: skip
    assert len(left_over) > 5
    found = [ahead.right(case) for case in ahead._cases(random.Random(3), 47)]
    assert {one["tokens"] > 1 for one in found} == {True, False} and {0, 1, 2} <= {one["awaited"] for one in found}
    assert {0, 1, 2} <= {one["blocks"] for one in found}
    lives = [late.right(case) for case in late._cases(random.Random(3), 47)]
    assert {one["dropped"] for one in lives} == {0, 1}


class Scripted(CountingExecutor):
    """Samples what it was told to, one after the other."""

    def __init__(self, sampled):
        super().__init__()
        self.sampled = iter(sampled)

    def collect(self, handle):
        chosen = super().collect(handle)
        chosen.token_ids[:] = [next(self.sampled) for _ in chosen.token_ids]
        return chosen


@pytest.mark.parametrize("case", late._cases(random.Random(3), 47))
def test_a_life_is_the_engines(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        llm = LLM(executor=Scripted(case["sampled"]), async_scheduling=True, record=True,
                  block_size=case["block_size"], num_gpu_blocks_override=80)  # fmt: skip
    params = SamplingParams(max_tokens=case["max_tokens"], ignore_eos=True, stop_token_ids=case["stops"])
    schedule, held = llm.scheduler.schedule, []

    def watched():
        output = schedule()
        held.append(len(llm.kv_cache_manager.get_block_ids("A")))
        return output

    llm.scheduler.schedule = watched
    [output] = llm.generate([[*range(1, case["prompt"] + 1)]], params)
    expected = late.right(case)
    plans = sum(e.kind == "step_ended" and e.num_tokens > 0 for e in llm.trace.events)
    assert (output.outputs[0].token_ids, plans, held) == (expected["answer"], expected["plans"], expected["held"])


def test_the_story_tells_the_engines_steps():
    llm = LLM(device="counting", record=True, block_size=4, num_gpu_blocks_override=64, max_num_batched_tokens=12)
    for i, n in enumerate((9, 9, 30, 3)):
        llm.add_request([n + i] * n, SamplingParams(max_tokens=5, ignore_eos=True))
    for running, waiting, theirs in story.steps(llm):
        case = {"running": running, "waiting": waiting, "budget": 12, "seats": 256, "chunked": True}
        assert [list(pair) for pair in theirs] == step.right(case)


BORROWED = {
    "13.1": """
from pagedlab.engine import Scheduler
from types import SimpleNamespace
def step(running, waiting, budget, seats, chunked):
    return list(Scheduler(None, max_num_seqs=seats, max_num_batched_tokens=budget, max_model_len=9**9)
                .schedule().num_scheduled_tokens.items())""",
    "13.3": """
from pagedlab.engine.async_scheduler import AsyncScheduler as Theirs
def plan_ahead(request, budget, block_size):
    Theirs(None, max_num_seqs=1, max_num_batched_tokens=budget, max_model_len=99)
    return {"tokens": 0, "blocks": 0, "awaited": 0}""",
}


@pytest.mark.slow
def test_the_packages_own_schedulers_answer_no_part(submission):
    answers = {name: f"# part {name}{code}" for name, code in BORROWED.items()}
    for check in grade(submission(answers, number="13"), with_nbval=False).checks:
        assert (check.earned == 0) == (check.name in BORROWED), check
        assert check.name not in BORROWED or "your own code" in check.reason, check
