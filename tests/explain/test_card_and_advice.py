"""The parts sum to the card where the log says so; the knobs have this log's numbers."""

import pytest

from pagedlab.explain.card import Part, strip


@pytest.mark.parametrize("name, of, size, letters", [
    ("a100-031-start", "card", 79.25, "oWnaK."),
    ("rtx3090-v0-064-start", "card", 23.58, "WnaK?"),
    ("a100-v0-40gb-start", "card", 39.5, "WnaK?"),
    ("rtx4090x2-v0-tp2-refused", "budget", 23.08, "WnaK"),
    ("gpu47-091-memory-taken", "card", 47.38, "o."),
    ("cpu-032-start-padded-len", "card", 16.21, "K?"),
    ("h100-out-of-memory", "card", 79.11, "?"),
])
def test_the_parts_sum_to_the_whole(read, name, of, size, letters):
    card = read(name).card
    assert (card.of, card.gib) == (of, size)
    assert "".join(part.letter for part in card.known) == letters
    assert sum(part.gib for part in card.known) == pytest.approx(size, abs=0.011)


@pytest.mark.parametrize("name", ["h20-019-hybrid-two-numbers", "pp-refused-whole-model", "h100nvl-029-profiling-grew"])
def test_a_log_without_a_size_has_no_whole(read, name):
    card = read(name).card
    assert (card.of, card.known) == ("", [])


START = """INFO 08-14 14:06:05 [core.py:93] Initializing a V1 LLM engine (v{version}) with config: model='m'
INFO 08-14 14:07:22 [gpu_model_runner.py:6806] Estimated CUDA graph memory: 0.36 GiB total
INFO 08-14 14:07:22 [gpu_worker.py:563] Available KV cache memory: 6.87 GiB
INFO 08-14 14:07:40 [gpu_model_runner.py:1] Graph capturing finished in 10 secs, took 0.30 GiB
INFO 08-14 14:07:41 [gpu_worker.py:1] Free memory on device (23.31/23.56 GiB) on startup. Desired GPU memory \
utilization is (0.82, 19.32 GiB). Actual usage is 11.26 GiB for weight, 1.0 GiB for peak activation, 0.19 GiB for \
non-torch memory, and 0.3 GiB for CUDAGraph memory.
"""


def test_graphs_are_inside_of_the_budget_since_0_21_and_beyond_it_before(read):
    since, before = read(START.format(version="0.27.1")).card, read(START.format(version="0.18.0")).card
    assert {part.letter: part.gib for part in since.known} == {
        "o": 0.25, "W": 11.26, "n": 0.19, "a": 0.64, "g": 0.36, "K": 6.87, ".": 3.99}  # fmt: skip
    assert {part.letter: part.gib for part in before.known} == {
        "o": 0.25, "W": 11.26, "n": 0.19, "a": 1.0, "g": 0.3, "K": 6.87, ".": 3.69}  # fmt: skip
    for card in (since, before):
        assert sum(part.gib for part in card.known) == pytest.approx(23.56)


def test_figures_that_exceed_the_card_are_not_put_into_it(read):
    log = read(START.format(version="0.27.1").replace("/23.56 GiB", "/13.56 GiB").replace("(23.31", "(13.31"))
    assert log.card.of == "" and "do not add up" in log.all_notes


@pytest.mark.parametrize("sizes, width, wanted", [
    ([1.0, 1.0], 10, "aaaaabbbbb"), ([0.0, 2.0], 4, "bbbb"), ([1.0, 1.0, 1.0], 10, "aaaabbbccc"),
    ([0.001, 9.999], 10, "b" * 10),
])
def test_the_strip_is_as_wide_as_asked(sizes, width, wanted):
    parts = [Part(letter, letter, size) for letter, size in zip("abc", sizes, strict=False)]
    assert strip(parts, sum(sizes), width) == wanted


@pytest.mark.parametrize("name, knob, words", [
    ("rtx3090-v0-064-refused", "max_model_len", "23,648 or less instead of 29,000"),
    ("rtx3090-v0-064-refused", "gpu_memory_utilization", "0.93 instead of 0.9: about 0.65 GiB more"),
    ("rtx3090-v0-064-refused", "kv_cache_dtype", "about 47,296 tokens instead of 23,648, enough"),
    ("gpu47-091-memory-taken", "gpu_memory_utilization", "0.66 or less instead of 0.95, a budget of 31.27 GiB"),
    ("gpu47-091-memory-taken", "other processes", "15.94 GiB"),
    ("a100-031-start", "gpu_memory_utilization", "up to 0.99 instead of 0.92: 5.55 GiB more, about 45,445 tokens"),
    ("h100nvl-029-profiling-grew", "start it again", "7.23 GiB became free"),
    ("cpu-032-serve-preempted-unsaid", "num_gpu_blocks_override", "728 blocks fit instead of 60"),
    ("cpu-032-serve-preempted-unsaid", "max_num_seqs", "5 or less instead of 16"),
    ("rtx4090x2-v0-tp2-refused", "gpu_memory_utilization", "The card's size or what the utilization is now is not in"),
    ("cpu-032-start-padded-len", "max_num_seqs", "16, as now, never preempts"),
])
def test_a_knob_has_the_numbers_of_the_log(read, name, knob, words):
    assert words in read(name).knob(knob)


NO_ROOM = """INFO 01-02 03:04:05 [utils.py:1] non-default args: {{'model': 'm', 'gpu_memory_utilization': {util}, \
'tensor_parallel_size': 2, 'max_num_batched_tokens': 8192}}
INFO 01-02 03:04:06 [gpu_model_runner.py:1] Model loading took 14.0 GiB and 2.0 seconds
INFO 01-02 03:04:06 worker.py:1] the current vLLM instance can use total_gpu_memory (24.00GiB) x \
gpu_memory_utilization ({util}) = {budget}GiB
INFO 01-02 03:04:07 [gpu_worker.py:1] Available KV cache memory: {kv} GiB
ERROR 01-02 03:04:08 [core.py:1] ValueError: No available memory for the cache blocks. Try
"""


def test_a_pool_below_zero_says_how_high_the_utilization_must_be(read):
    log = read(NO_ROOM.format(util="0.60", budget="14.40", kv=-2.4))
    assert [knob.name for knob in log.knobs] == [
        "gpu_memory_utilization", "max_num_batched_tokens", "tensor_parallel_size"]  # fmt: skip
    assert log.knobs[0].effect.startswith("more than 0.7 instead of 0.6: 2.40 GiB are missing")
    assert "less than 8,192" in log.knobs[1].effect and "4 instead of 2: about 7.00 GiB" in log.knobs[2].effect
    assert log.f.failure.detail == {"available_gib": -2.4}


def test_a_card_that_is_too_small_is_told_so_and_other_knobs_come_first(read):
    log = read(NO_ROOM.format(util="0.90", budget="21.60", kv=-5.0))
    assert log.knobs[0].name == "tensor_parallel_size"
    assert log.knobs[2].effect.startswith("not enough by itself: 5.00 GiB are missing")


def test_a_utilization_beyond_the_card_is_not_advised(read):
    refused = ("INFO 01-02 03:04:06 worker.py:1] the current vLLM instance can use total_gpu_memory (24.00GiB) x "
               "gpu_memory_utilization (0.90) = 21.60GiB\nValueError: To serve at least one request with the model's "
               "max seq len (32768), (4.0 GiB KV cache is needed, which is larger than the available KV cache memory "
               "(1.0 GiB). Based on the available memory, the estimated maximum model length is 8192. Try\n")
    effect = read(refused).knob("gpu_memory_utilization")
    assert effect.startswith("not enough by itself: 3.00 GiB more are needed") and "0.99 is the most" in effect
    assert "for about 25,886 tokens" in effect  # 32,768 x (1.0 + 0.09 x 24) / 4.0


def test_an_eight_bit_cache_is_not_advised_where_it_is_one(read):
    log = read("INFO 01-02 03:04:05 [core.py:1] Initializing a V1 LLM engine (v0.20.0) with config: model='m', "
               "kv_cache_dtype=fp8_e4m3, tensor_parallel_size=1\nValueError: The model's max seq len (9000) is larger "
               "than the maximum number of tokens that can be stored in KV cache (8000).\n")  # fmt: skip
    assert [knob.name for knob in log.knobs] == ["max_model_len", "gpu_memory_utilization", "tensor_parallel_size"]
