"""The overload that the preemption lab, chapter 08 and exercise 08 run, and what is read from it."""

import math
from random import Random

import pytest

from pagedlab.bench import preemption
from pagedlab.bench.preemption import (
    fit,
    longest_pause,
    measure_recompute_cost,
    measure_swap_cost,
    overload,
    price_text,
    run_out,
    separated,
    work_done,
)
from pagedlab.engine import LLM, Scheduler
from pagedlab.errors import PagedlabError

PROMPTS = [[(7 * i + 3 * j) % 200 + 1 for j in range(n)] for i, n in enumerate((12, 14, 10, 11, 8))]


@pytest.fixture(scope="module")
def tiny():
    return LLM("tiny-random", num_gpu_blocks_override=2)


def answers(llm):
    sampled = {}
    for e in llm.trace.events:
        if e.kind == "token_sampled":
            sampled.setdefault(e.request_id, []).append(e.token_id)
    return sampled


def test_both_eras_get_the_same_requests_and_as_many_blocks_to_hand_out(tiny):
    recompute, swap = overload(tiny, "recompute", PROMPTS), overload(tiny, "swap", PROMPTS)
    assert [llm.step_count for llm in (recompute, swap)] == [0, 0]
    assert [llm.block_pool.get_num_free_blocks() for llm in (recompute, swap)] == [18, 18]
    assert list(recompute.requests) == list(swap.requests) == list("ABCDE")


def test_everybody_gets_the_same_answer_whoever_had_to_make_room(tiny):
    large = run_out(overload(tiny, "recompute", PROMPTS, num_blocks=60))
    assert work_done(large)["preemptions"] == 0 and longest_pause(large) == 1
    for how, again, found in (("recompute", 34, 12), ("swap", 0, 0)):
        llm = run_out(overload(tiny, how, PROMPTS))
        done = work_done(llm)
        assert answers(llm) == answers(large)
        assert (done["preemptions"], done["recomputed_tokens"], done["found_tokens"]) == (3, again, found)
        assert (done["swapped_bytes"] > 0) == (how == "swap")
        assert longest_pause(llm) == {"recompute": 14, "swap": 15}[how]  # E, until step 17


def test_without_a_prefix_cache_all_of_a_victim_is_computed_again(tiny):
    done = work_done(run_out(overload(tiny, "recompute", PROMPTS, enable_prefix_caching=False)))
    assert (done["recomputed_tokens"], done["found_tokens"]) == (34 + 12, 0)


def test_a_request_that_could_never_run_is_refused(tiny):
    with pytest.raises(PagedlabError, match="too small"):
        overload(tiny, "recompute", [[1] * 90])


class FirstOut(Scheduler):
    """Throws out who was admitted first, not last."""

    def _schedule_running(self, output, budget):
        for request in list(self.running):
            wanted = min(request.num_tokens - request.num_computed_tokens, budget)
            while wanted > 0 and request in self.running:
                new_blocks = self.kv_cache_manager.allocate_slots(request, wanted)
                if new_blocks is not None:
                    output.num_scheduled_tokens[request.request_id] = wanted
                    output.new_block_ids[request.request_id] = [block.block_id for block in new_blocks]
                    budget -= wanted
                    break
                victim = self.running.pop(0)
                self.kv_cache_manager.free(victim)
                victim.status, victim.num_computed_tokens = "preempted", 0
                self.waiting.appendleft(victim)
                output.preempted.append(victim)
                budget += output.num_scheduled_tokens.pop(victim.request_id, 0)
                output.new_block_ids.pop(victim.request_id, None)
        return budget


def test_throwing_out_the_first_ends_too_but_makes_the_eldest_wait(tiny):
    """Chapter 08: "261 steps in place of 263 ... the first request had its answer in step 190 instead of 48"."""
    rng = Random(8)
    crowd = [[rng.randrange(200) for _ in range(rng.randint(8, 32))] for _ in range(24)]
    seen = []
    for scheduler in (Scheduler, FirstOut):
        llm = run_out(overload(tiny, "recompute", crowd, max_tokens=48, num_blocks=60, scheduler=scheduler))
        last = max(i for i, e in enumerate(llm.trace.events) if e.kind == "token_sampled" and e.request_id == "A")
        seen.append((llm.step_count, sum(e.kind == "step_started" for e in llm.trace.events[:last])))
    assert seen == [(263, 48), (261, 190)]


def test_the_prices_are_found_again_in_times_that_follow_from_them():
    move, block, byte = 3e-4, 5e-6, 1e-10
    rows = [[1.0, n, n * b * 46_080] for n, b in ((2, 16), (32, 16), (512, 1), (32, 4), (4, 64))]
    seconds = [move * a + block * n + byte * num_bytes for a, n, num_bytes in rows]
    assert fit(rows, seconds) == pytest.approx([move, block, byte])


def test_a_price_that_the_times_do_not_tell_is_called_not_separable(tiny, monkeypatch):
    """Times that fall as the bytes grow: as on a machine that was busy while the small ones were measured."""
    times = iter([0.4, 0.2, 0.5, 0.3, 0.25, 0.1])
    monkeypatch.setattr(preemption, "_swap_seconds", lambda *_: next(times))
    swap = measure_swap_cost(tiny)
    assert swap.bytes_per_second == math.inf and separated(swap.bytes_per_second) is None
    assert price_text(swap.bytes_per_second, ".1f", "GB/s", 1e-9) == "not separable"
    assert 0 < swap.seconds(100, 4) < math.inf
    times = iter([0.3, 0.2, 0.1])
    monkeypatch.setattr(preemption, "_prefill_seconds", lambda *_: next(times))
    recompute = measure_recompute_cost(tiny)
    assert price_text(recompute.tokens_per_second, ",.0f", "tokens/s") == "not separable"
    assert price_text(recompute.seconds_per_pair, ".1f", "ns", 1e9) == "not separable"
    assert price_text(recompute.seconds_per_step, ".0f", "ms", 1e3).endswith(" ms")


def test_the_benchmark_prints_not_separable_and_keeps_valid_json(monkeypatch, capsys):
    """The whole command, with times that leave nothing but a fixed price."""
    import json

    monkeypatch.setattr(preemption, "_swap_seconds", lambda *_: 0.1)
    monkeypatch.setattr(preemption, "_prefill_seconds", lambda *_: 0.2)
    preemption.run(model="tiny-random", device="cpu")
    table = capsys.readouterr().out
    assert table.count("not separable") >= 4 and "inf" not in table and "nan" not in table
    preemption.run(model="tiny-random", device="cpu", json=True)
    result = json.loads(capsys.readouterr().out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert result["bytes_per_second"] is None and result["prefill_tokens_per_second"] is None
