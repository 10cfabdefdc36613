"""batch_invariant=True: the same logits, bit for bit, whatever else is in the batch and however a prompt is cut."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedlab.attention import paged_attention
from pagedlab.engine import LLM, BeamSearchParams, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.model import llama, tiles
from pagedlab.model.weights import load_model

DTYPES = ("float32", "bfloat16", "float16")
PARAMS = SamplingParams(max_tokens=6, ignore_eos=True)


@pytest.fixture(scope="module")
def in_dtype() -> dict[str, LLM]:
    """Tiny models, whose weights the engines of this file share."""
    return {dtype: LLM("tiny-random", device="cpu", dtype=dtype, num_gpu_blocks_override=8) for dtype in DTYPES}


def logits_of(llm: LLM, prompt: list[int], before=(), after=(), params: SamplingParams = PARAMS) -> dict:
    """The logits after each position of ``prompt`` and its answer that was followed by a token, in a batch with others;
    ``before`` and ``after`` it."""
    seen: dict[int, torch.Tensor] = {}
    run = llm.executor.runner.run

    def watched(batch, *args):
        logits = run(batch, *args)
        seen.update({part.end: logits[row].clone() for row, part in enumerate(batch) if part.request_id == "X"})
        return logits

    llm.executor.runner.run = watched
    for other in before:
        llm.add_request(other, params)
    llm.add_request(prompt, params, request_id="X")
    for other in after:
        llm.add_request(other, params)
    while llm.has_unfinished_requests():
        llm.step()
    return {end: row for end, row in seen.items() if end >= len(prompt)}


def assert_same_bits(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for end in one:
        assert torch.equal(one[end], other[end]), f"the logits after {end} tokens differ"


tokens = st.lists(st.integers(0, 255), min_size=1, max_size=150)
crowds = st.sampled_from([0, 6, 15]).flatmap(lambda n: st.lists(tokens.map(lambda t: t[:40]), min_size=n, max_size=n))


@settings(max_examples=60, deadline=None)
@given(
    prompt=tokens,
    others=crowds,
    ahead=st.integers(0, 15),
    dtype=st.sampled_from(DTYPES),
    chunk=st.sampled_from([8192, 64, 17, 16, 5]),
    block_size=st.sampled_from([4, 16, 5]),
    cached=st.booleans(),
    is_async=st.booleans(),
    threads=st.sampled_from([1, 2]),
)
def test_logits_are_the_same_bits_in_any_batch_cached_and_in_any_chunks(
    in_dtype, prompt, others, ahead, dtype, chunk, block_size, cached, is_async, threads
):
    before = torch.get_num_threads()
    make = partial(LLM, in_dtype[dtype], batch_invariant=True, block_size=block_size, num_gpu_blocks_override=500)
    torch.set_num_threads(threads)
    try:
        alone = logits_of(make(), prompt)
        llm = make(max_num_batched_tokens=chunk, async_scheduling=is_async)
        if cached:
            llm.generate([prompt[: len(prompt) // 2 + 1]], SamplingParams(max_tokens=1))
        together = logits_of(llm, prompt, others[:ahead], others[ahead:])
    finally:
        torch.set_num_threads(before)
    assert_same_bits(alone, together)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("knobs", [{}, {"era": "paper"}, {"era": "paper", "preemption": "swap"}])
def test_logits_are_the_same_bits_after_a_preemption(in_dtype, dtype, knobs):
    make = partial(LLM, in_dtype[dtype], batch_invariant=True, block_size=4, record=True, **knobs)
    prompt, others = [7 * i % 250 for i in range(30)], [[5 * i % 249 for i in range(n)] for n in (9, 22, 14, 3)]
    params = SamplingParams(max_tokens=14, ignore_eos=True)
    small = make(num_gpu_blocks_override=22)
    squeezed = logits_of(small, prompt, others, params=params)
    preempted = [e.request_id for e in small.trace.events if type(e).__name__ == "RequestPreempted"]
    assert "X" in preempted, "a run that nothing is lost in would show nothing"
    assert_same_bits(logits_of(make(num_gpu_blocks_override=200), prompt, params=params), squeezed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ordinary_mode_gives_other_bits(in_dtype, dtype):
    """So the tests above can fail."""
    prompt = [(31 * i + 7) % 256 for i in range(60)]
    make = partial(LLM, in_dtype[dtype], block_size=4, num_gpu_blocks_override=200)
    whole, chunks = logits_of(make(), prompt), logits_of(make(max_num_batched_tokens=7), prompt)
    assert any(not torch.equal(whole[end], chunks[end]) for end in whole.keys() & chunks.keys())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_real_model_too(dtype):
    base = LLM("smollm2", device="cpu", dtype=dtype, num_gpu_blocks_override=8)
    prompt = base.tokenizer.encode("The three most important inventions of the twentieth century are")
    others = [base.tokenizer.encode(text) for text in ("One", "A longer one, of several words", "Why?", "2 + 2 =")]
    make = partial(LLM, base, num_gpu_blocks_override=100)
    alone = logits_of(make(batch_invariant=True), prompt)
    together = logits_of(make(batch_invariant=True, max_num_batched_tokens=6), prompt, others[:2], others[2:])
    assert_same_bits(alone, together)
    ordinary, cut = logits_of(make(), prompt), logits_of(make(max_num_batched_tokens=6), prompt, others)
    assert any(not torch.equal(ordinary[end], cut[end]) for end in ordinary.keys() & cut.keys())
    first = len(prompt)
    apart = (alone[first] - ordinary[first]).abs().max()
    assert apart < (1e-3 if dtype == "float32" else 2), "it is the same model"


def test_tokens_that_are_drawn_and_beams_are_the_same_in_any_batch(in_dtype):
    make = partial(LLM, in_dtype["bfloat16"], batch_invariant=True, block_size=4, num_gpu_blocks_override=200)
    params = SamplingParams(max_tokens=8, temperature=1.5, top_p=0.9, seed=3, ignore_eos=True)
    prompts = [[11 * i % 256 for i in range(n)] for n in (20, 3, 9, 33)]
    alone = [make().generate([prompt], params)[0].outputs[0].token_ids for prompt in prompts]
    assert alone == [output.outputs[0].token_ids for output in make().generate(prompts, params)]
    beams = BeamSearchParams(beam_width=3, max_tokens=6)
    together = make(era="paper").beam_search(prompts, beams)
    alone = [make(era="paper").beam_search([prompt], beams)[0] for prompt in prompts]
    assert [output.sequences for output in alone] == [output.sequences for output in together]


def test_the_header_of_a_trace_says_which_attention_it_was(in_dtype):
    knobs = {"num_gpu_blocks_override": 8, "record": True}
    header = LLM(in_dtype["float32"], batch_invariant=True, **knobs).trace.header
    assert header["attention_backend"] == "fixed_tiles"
    assert header["config"]["batch_invariant"] is True
    assert LLM(in_dtype["float32"], **knobs).trace.header["attention_backend"] == "cpp"


def test_counting_keeps_it_and_an_executor_that_does_not_is_refused(in_dtype, monkeypatch):
    LLM(device="counting", batch_invariant=True, num_gpu_blocks_override=8)
    executor = in_dtype["float32"].executor.share()
    monkeypatch.setattr(type(executor), "can_be_batch_invariant", False)
    with pytest.raises(
        PagedlabError, match=r"not kept by TorchExecutor: .* where torch runs the model \(device=\"cpu\""
    ):
        LLM(executor=executor, batch_invariant=True, num_gpu_blocks_override=8)


def test_bad_input_is_refused(in_dtype):
    with pytest.raises(PagedlabError, match="batch_invariant is 'yes'; it must be True or False"):
        LLM(in_dtype["float32"], batch_invariant="yes")
    with pytest.raises(PagedlabError, match="Leave attention= out, or batch_invariant"):
        LLM(in_dtype["float32"], batch_invariant=True, attention=paged_attention, num_gpu_blocks_override=8)


def test_a_library_that_treats_a_row_by_its_place_is_found_out(monkeypatch):
    model, _ = load_model("tiny-random")
    tiles.tiles_for(model)
    exact = llama.rotated_heads

    def by_place(*given):
        y = exact(*given)
        y[-1] = torch.nextafter(y[-1], torch.tensor(torch.inf))
        return y

    monkeypatch.setattr(llama, "rotated_heads", by_place)
    with pytest.raises(PagedlabError, match="heads of equal tokens differ by their place in a tile of 16"):
        tiles.tiles_for(model)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 16])
def test_every_tile_has_the_same_size_and_what_fills_it_is_cut_off(count):
    seen = []

    def part(rows, more):
        seen.append((rows.shape, rows.data_ptr() % 64))
        return rows * 2 + more

    rows, more = torch.randn(count, 5), torch.randn(count, 5)
    assert torch.equal(tiles.Tiles(4)(part, rows, more), rows * 2 + more)
    assert seen == [(torch.Size([4, 5]), 0)] * -(-count // 4)
