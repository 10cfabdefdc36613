"""Whatever happens to memory, the model sees what it would see without pages: both eras, random schedules, pools that
are too small."""

from __future__ import annotations

import random
import warnings

import pytest
from contiguous import contiguous_logits

from pagedlab.engine import LLM, BeamSearchParams, SamplingParams
from pagedlab.trace import MemoryState


def check_logits(llm: LLM, tolerance: float, every: int = 1) -> None:
    """From now on each row of logits (of every n-th step) must be that of an uninterrupted run of the request's tokens,
    without pages."""
    run = llm.executor.runner.run

    def checked(batch, last):
        logits = run(batch, last)
        for row, part in enumerate(batch if llm.step_count % every == 0 else ()):
            expected = contiguous_logits(llm.model, part.token_ids[: part.end])[-1]
            assert (logits[row] - expected).abs().max() < tolerance, f"step {llm.step_count}, {part.request_id}"
            assert expected.topk(2).values.diff().abs() < 1e-3 or logits[row].argmax() == expected.argmax()
        return logits

    llm.executor.runner.run = checked


def check_state(state: MemoryState, llm: LLM) -> None:
    """The state folded from the events is that of the live engine."""
    scheduler, manager = llm.scheduler, llm.kv_cache_manager
    requests = {request.request_id: request for group in llm.groups.values() for request in group.get_seqs()}
    if llm.config.era == "v1":
        queues = (scheduler.waiting, scheduler.running, [])
        assert state.tables == {r: manager.get_block_ids(r) for r in manager.req_to_blocks}
        assert state.free == [b.block_id for b in llm.block_pool.free_block_queue.get_all_free_blocks()]
    else:
        groups = (scheduler.waiting, scheduler.running, scheduler.swapped)
        queues = [[request for group in queue for request in group.get_seqs()] for queue in groups]
        assert state.tables == {r: [b.block_id for b in t] for r, t in manager.block_tables.items()}
        assert state.cpu.tables == {r: [b.block_id for b in t] for r, t in manager.cpu_block_tables.items()}
        assert state.free == manager.gpu_allocator.get_free_block_ids()[::-1]
        assert state.cpu.free == manager.cpu_allocator.get_free_block_ids()[::-1]
        assert state.cpu.ref_cnt == [block.ref_cnt for block in manager.cpu_allocator.blocks]
    for found, queue in zip((state.waiting, state.running, state.swapped), queues, strict=True):
        assert found == [request.request_id for request in queue]
    assert state.ref_cnt == [block.ref_cnt for block in llm.block_pool.blocks]
    for request_id, request in requests.items():
        assert state.requests[request_id].token_ids == request.all_token_ids
        assert state.requests[request_id].num_computed_tokens == request.num_computed_tokens
    for request_id, table in state.tables.items():  # each slot holds the token that the request has there
        for position in range(state.requests[request_id].num_computed_tokens):
            slot = state.slots[table[position // state.block_size]][position % state.block_size]
            assert (slot.position, slot.token_id) == (position, requests[request_id].all_token_ids[position])
    assert {r: t.block_ids for r, t in llm.tables.items()} == state.tables  # what the model reads


def spoil_free_blocks(llm: LLM) -> None:
    """What lies in a free block is nobody's (nothing is found by its content in that era): nobody may miss it."""
    manager, executor = llm.kv_cache_manager, llm.executor
    for allocator, pool in ((manager.gpu_allocator, executor.kv_pool), (manager.cpu_allocator, executor.swap_space)):
        pool.data[:, :, [block.block_id for block in allocator.blocks if block.ref_cnt == 0]] = 1e4


def random_engine(base: LLM, rng: random.Random) -> LLM:
    knobs = {"record": True, "block_size": rng.choice([1, 2, 3, 4, 8]), "max_model_len": 48}
    if rng.random() < 0.3:
        knobs |= {"max_num_batched_tokens": rng.choice([5, 16, 64]), "enable_prefix_caching": rng.random() < 0.7}
        knobs |= {"max_num_seqs": rng.choice([2, 8])}
    else:
        knobs |= {"era": "paper", "preemption": rng.choice(["recompute", "swap"])}
        if knobs["preemption"] == "swap":
            knobs["num_cpu_blocks_override"] = rng.choice([1, 6, 100])
    # Just enough for the largest request, 11 + 8 tokens of which the last is not written, or little more.
    size, longest = knobs["block_size"], 18
    if "era" in knobs:  # three sequences that share the prompt's full blocks alone, and a free block for each
        num_blocks = max(p // size + 3 * (-(-(p + 7) // size) - p // size) for p in range(1, 12)) + 3
    else:
        num_blocks = 1 + -(-longest // size)
    return LLM(base, num_gpu_blocks_override=num_blocks + rng.choice([0, 1, 3]), **knobs)


@pytest.mark.parametrize("seed", range(24))
def test_any_mix_in_a_pool_that_is_too_small_gives_the_logits_of_a_run_without_pages(tiny, seed):
    rng = random.Random(seed)
    llm = random_engine(tiny, rng)
    check_logits(llm, tolerance=2e-4)
    state = MemoryState.of(llm.trace.header["config"])
    llm.recorder.subscribe(state.apply)
    common = [rng.randrange(256) for _ in range(12)]
    arriving = 6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a full CPU pool is part of the plan
        while arriving or llm.has_unfinished_requests():
            if arriving and rng.random() < 0.5:
                arriving -= 1
                prompt = common[: rng.randrange(8)] + [rng.randrange(256) for _ in range(rng.randrange(1, 5))]
                n, max_tokens = rng.randrange(1, 4), rng.randrange(1, 9)
                params = SamplingParams(n=n, temperature=rng.choice([0.0, 1.0]), max_tokens=max_tokens, ignore_eos=True)
                if llm.config.era == "paper" and rng.random() < 0.4:
                    params = BeamSearchParams(beam_width=n, max_tokens=max_tokens)
                llm.add_request(prompt, params)
            elif llm.groups and rng.random() < 0.03:
                llm.abort_request(rng.choice(list(llm.groups)))
            llm.step()
            check_state(state, llm)
            if llm.config.era == "paper":
                spoil_free_blocks(llm)
            assert llm.step_count < 400
    assert llm.block_pool.get_num_free_blocks() == llm.num_blocks - (llm.config.era == "v1")
    if llm.config.era == "paper":
        assert llm.kv_cache_manager.cpu_allocator.get_num_free_blocks() == llm.num_cpu_blocks


def test_the_random_schedules_meet_everything_that_can_happen(tiny):
    """Whoever changes the schedules above must not lose what they are for."""
    met: set[str] = set()
    for seed in range(24):
        rng = random.Random(seed)
        llm = random_engine(tiny, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            params = [SamplingParams(n=3, temperature=1.0, max_tokens=8, ignore_eos=True)] * 4
            if llm.config.era == "paper":
                params += [BeamSearchParams(beam_width=3, max_tokens=8)] * 2
            llm.generate([[i, 2, 3, 4, 5, 6, 7] for i in range(len(params))], params)
        for e in llm.trace.events:
            met.add(
                f"{llm.config.era} {e.kind}" + (f" {e.how} {bool(e.reason)}" if e.kind == "request_preempted" else "")
            )
    assert met >= {
        "v1 request_preempted recompute False",
        "v1 block_touched",
        "paper request_forked",
        "paper block_copied",
        "paper block_touched",
        "paper blocks_swapped_out",
        "paper blocks_swapped_in",
        "paper request_preempted swap False",
        "paper request_preempted recompute False",
        "paper request_preempted recompute True",
    }


@pytest.mark.slow
@pytest.mark.parametrize("how", ["recompute", "swap"])
def test_a_long_run_of_the_real_model_is_not_changed_by_what_happens_to_memory(how):
    base = LLM("smollm2", num_gpu_blocks_override=2)
    knobs = {"record": True, "era": "paper", "block_size": 8, "max_model_len": 128}
    llm = LLM(base, preemption=how, num_gpu_blocks_override=20, **knobs)
    check_logits(llm, tolerance=5e-3, every=8)
    texts = ["The capital of France is", "Once upon a time there was a small", "In the beginning"]
    params = [
        SamplingParams(n=3, temperature=0.8, seed=1, max_tokens=28, ignore_eos=True),
        BeamSearchParams(beam_width=3, max_tokens=24),
        SamplingParams(max_tokens=40, ignore_eos=True),
    ]
    tight = llm.generate(texts, params)
    kinds = [e.kind for e in llm.trace.events]
    assert "block_copied" in kinds and "request_preempted" in kinds
    assert llm.block_pool.get_num_free_blocks() == 20
    roomy = LLM(base, num_gpu_blocks_override=200, **knobs).generate(texts, params)
    assert [[a.token_ids for a in o.outputs] for o in tight] == [[a.token_ids for a in o.outputs] for o in roomy]
