"""A recording of vLLM's engine run again by ours, to be looked at: the plans are the recorded ones."""

import pytest

from pagedlab.engine import LLM
from pagedlab.errors import PagedlabError
from pagedlab.parity.repeated import repeat, schedules
from pagedlab.viz import token_budget


def test_schedules_are_those_of_the_recording_and_an_unknown_one_is_named():
    plans = schedules("async-4")
    assert [line["n"] for line in plans] == [*range(1, len(plans) + 1)]
    assert [line["n"] for line in plans if line["preempted"]] == [6]
    assert not any(line["preempted"] for line in schedules("sync-4"))
    with pytest.raises(PagedlabError, match="There is no recording 'async-9'"):
        schedules("async-9")


@pytest.mark.slow
def test_a_repeated_run_plans_as_vllm_did_and_overlap_alone_throws_one_out():
    base = LLM("smollm2", num_gpu_blocks_override=2)
    llm = repeat("async-4", base, 7)
    lab = token_budget(llm)
    assert [lab.shares(n) for n in range(1, 8)] == [line["scheduled"] for line in schedules("async-4")[:7]]
    assert [e.request_id for e in llm.trace.events if e.kind == "request_preempted"] == ["r4"]
