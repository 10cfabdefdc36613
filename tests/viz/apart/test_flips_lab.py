"""The lab of one request's answers: its rows are what runs sampled, its frames stand at the first difference."""

from __future__ import annotations

import pytest
from front_end import FrontEnd

from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.viz import flips

PROMPT = [(31 * i + 7) % 256 for i in range(30)]


def drawn(model: LLM, seed: int, tokens: int = 9) -> LLM:
    """A run whose tokens are drawn: other seeds, other answers."""
    llm = LLM(model, record=True, block_size=4, num_gpu_blocks_override=64)
    params = SamplingParams(max_tokens=tokens, temperature=0.8, top_p=0.6, seed=seed, ignore_eos=True)
    llm.generate(PROMPT, params)
    return llm


@pytest.fixture(scope="module")
def runs() -> dict[str, LLM]:
    model = LLM("tiny-random", num_gpu_blocks_override=8)
    seeds = {"one": 1, "the same again": 1, "another seed": 2, "one more seed": 3}
    return {name: drawn(model, seed) for name, seed in seeds.items()} | {"a short one": drawn(model, 1, 5)}


def tokens(llm: LLM) -> list[int]:
    return [e.token_id for e in llm.trace.events if e.kind == "token_sampled"]


def first(a: list[int], b: list[int]) -> int | None:
    unlike = [i for i in range(max(len(a), len(b))) if a[i : i + 1] != b[i : i + 1]]
    return unlike[0] if unlike else None


def test_frames_stand_where_a_run_first_leaves_the_top_one(runs):
    lab, all_tokens = flips(runs, step=0), [tokens(llm) for llm in runs.values()]
    where = [first(all_tokens[0], other) for other in all_tokens]
    assert where[:2] == [None, None] and where[4] == 5 and None not in where[2:]
    for position in range(lab.num_steps + 1):
        lab.move(position)
        ids = {mark.id for mark in lab.marks()}
        for row, at in enumerate(where):
            shown = at is not None and max(0, position - 8) <= at < min(position, len(all_tokens[row]))
            assert (f"token.{row}.{at}.flip" in ids) == shown, (position, row)


def test_it_opens_just_before_the_first_flip_and_asks_which_run_leaves(runs):
    lab = flips(runs)
    where = {row: first(tokens(runs["one"]), tokens(llm)) for row, llm in enumerate(runs.values())}
    at = min(i for i in where.values() if i is not None)
    assert lab.position == at
    end = FrontEnd(lab)
    row = next(row for row, i in where.items() if i == at)
    lab.point(f"run.{row}")
    lab.forward()
    assert "✓ Right" in lab.words()["verdict"] and lab.score == (1, 1)
    with pytest.raises(PagedlabError, match="There is no run 9; there are 0 to 4"):
        lab.predict(9)
    lab.back()
    with pytest.raises(PagedlabError, match="nothing to predict here"):
        lab.predict(0)
    end.show(lab.position)


def test_runs_that_agree_to_the_end_say_so(runs):
    lab = flips({name: runs[name] for name in ("one", "the same again")})
    assert lab.position == lab.num_steps == 9
    assert "9 tokens, and all 2 runs gave the same" in lab.title() and "(the same)" in lab.text()


def test_bad_input_is_refused(runs):
    for wrong in ({"one": runs["one"]}, {str(i): runs["one"] for i in range(9)}, [runs["one"], runs["one"]]):
        with pytest.raises(PagedlabError, match="takes a dict of 2 to 8 runs"):
            flips(wrong)
    with pytest.raises(PagedlabError, match="The run 'one' has no token of request 'B'"):
        flips(runs, request="B")
