"""Where vLLM would refuse a pool, because it cannot hold ``max_model_len``, ours warns."""

from __future__ import annotations

import warnings

import pytest

from pagedlab.engine import LLM, SamplingParams

GREEDY = SamplingParams(max_tokens=12, ignore_eos=True)


def warned(**knobs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        llm = LLM(**knobs)
    assert all(c.filename == __file__ for c in caught)  # the line that made the engine
    return llm, [str(c.message) for c in caught if c.category is RuntimeWarning]


@pytest.mark.parametrize(("era", "usable"), [("v1", 9), ("paper", 10)])
def test_a_pool_that_cannot_hold_max_model_len_is_said_with_the_largest_length_that_fits(tiny, era, usable):
    knobs = dict(model=tiny, num_gpu_blocks_override=10, block_size=4, era=era)
    for fits in (usable * 4, usable * 4 - 3, 2):
        assert warned(**knobs, max_model_len=fits)[1] == []
    for beyond in (usable * 4 + 1, 100):
        llm, (warning,) = warned(**knobs, max_model_len=beyond)
        assert f"max_model_len={beyond} tokens" in warning and f"takes {-(-beyond // 4)} blocks of 4" in warning
        assert f'name {usable * 4} as "the estimated maximum model length"' in warning
        assert f"Set max_model_len={usable * 4} or less" in warning
        assert llm.generate([5, 6, 7], GREEDY)[0].finished  # it works all the same


def test_of_a_small_pool_without_a_length_that_was_asked_for_nothing_is_said(tiny):
    assert warned(model=tiny, num_gpu_blocks_override=10, block_size=4)[1] == []


def test_a_branch_does_not_say_again_what_its_engine_has_said(tiny):
    llm, issued = warned(model=tiny, num_gpu_blocks_override=10, block_size=4, max_model_len=100, record=True)
    assert len(issued) == 1
    llm.generate([5, 6, 7], GREEDY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        llm.rerun(2)
        with pytest.raises(RuntimeWarning, match="and it has 7 for requests"):
            llm.rerun(2, num_gpu_blocks_override=8)
