"""Where a log misleads, and that the reading says so."""

import pytest

from pagedlab.explain.report import report

POOL = "INFO 01-02 03:04:10 [kv_cache_utils.py:1] GPU KV cache size: {} tokens\n"
MANY = "INFO 01-02 03:04:10 [kv_cache_utils.py:1] Maximum concurrency for {} tokens per request: {}x\n"
LINE = ("INFO 01-02 03:04:{} [loggers.py:1] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
        "throughput: 9.0 tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {}%\n")
REFUSED = ("(EngineCore_DP0 pid=1) ERROR 01-02 03:04:11 [core.py:1] ValueError: To serve at least one request with the "
           "models's max seq len (262144), (24.0 GiB KV cache is needed, which is larger than the available KV cache "
           "memory (3.18 GiB). Based on the available memory, the estimated maximum model length is 34736. Try\n")
CONFIG = "INFO 01-02 03:04:05 [core.py:1] Initializing a V1 LLM engine (v{}) with config: model='m', {}\n"


def test_printed_tokens_of_a_padded_length_are_not_blocks_times_block_size(read):
    log = read("cpu-032-start-padded-len")
    assert log.d.by_padding and (log.d.get("num_blocks"), log.d.get("slots")) == (728, 23296)
    assert "not blocks times block size" in log.all_notes and "32 whole blocks (1,024 slots)" in log.all_notes


@pytest.mark.parametrize("tokens, length, many, blocks, padded", [
    ("160,000", 4096, "39.06", 10000, False),  # no padding: the length is a multiple of 16
    ("10,016", 1000, "10.02", 626, False),  # an older vLLM, with blocks times block size: of 63 a request none fit
    ("9,920", 1000, "9.92", None, False),  # 620 blocks of 16; or 625 as 9.92 x 63: both fit, so nobody can say
    ("9,904", 1000, "9.83", 619, False),  # blocks times block size, with the concurrency of whole blocks already
    ("9,873", 1000, "9.87", 622, True),  # 622 / 63 = 9.873
])  # fmt: skip
def test_blocks_follow_only_where_one_reading_fits(read, tokens, length, many, blocks, padded):
    d = read(POOL.format(tokens) + MANY.format(f"{length:,}", many)).d
    assert (d.get("num_blocks"), d.by_padding, d.by_groups) == (blocks, padded, False)


def test_two_numbers_that_disagree_are_of_several_groups_and_the_concurrency_is_right(read):
    log = read("h20-019-hybrid-two-numbers")
    assert log.d.by_groups and "290,864 / 32,768 is 8.88, not 33.04. The concurrency is right" in log.all_notes
    assert log.d.get("num_blocks") is None and log.d.get("block_size") is None
    assert "tokens instead of" not in log.knob("kv_cache_dtype")  # a state is not halved


def test_with_groups_that_the_log_shows_the_tokens_are_no_measure_of_their_own(read):
    size = "INFO 01-02 03:04:05 [interface.py:931] Setting attention block size to 784 tokens to ensure that\n"
    log = read(size + POOL.format("1,082,800") + MANY.format("32,768", "33.04"))
    assert (log.f.block_size, log.d.get("num_blocks"), log.d.get("bytes_per_token")) == (784, None, None)
    assert "the printed tokens are the concurrency times the length" in " ".join(
        " ".join(report(log.f, log.d, log.card, log.knobs, log.notes)).split())  # fmt: skip


def test_the_usage_leaves_the_null_block_out(read):
    log = read("cpu-032-serve-preempted-unsaid")
    assert log.d.get("blocks_in_use") == [24, 30, 36, 54, 56, 16, 0]
    assert "94.9 % is 56 of 59 blocks, not of 60" in log.all_notes


def test_v0_has_no_null_block(read):
    log = read("INFO 01-02 03:04:09 gpu_executor.py:1] # GPU blocks: 60, # CPU blocks: 10\n"
               "INFO 01-02 03:04:10 metrics.py:1] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 1.0 "
               "tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 90.0%, CPU KV cache "
               "usage: 0.0%.\n")  # fmt: skip
    assert log.d.get("blocks_in_use") == [54] and log.d.get("usable_blocks") is None
    assert "null block" not in log.all_notes


def test_a_usage_that_fits_no_whole_number_of_blocks_says_nothing_of_blocks(read):
    assert read(POOL.format(160) + LINE.format(10, 1, 0, 12.3)).d.get("blocks_in_use") is None


def test_requests_put_back_are_seen_though_0_32_cannot_print_them(read):
    log = read("cpu-032-serve-preempted-unsaid")
    run = log.f.runtime
    assert (run.preempted, run.preemptions_printed) == (True, None)
    assert "running 6 to 5 while waiting 0 to 1, the pool 94.9 % full" in log.all_notes
    assert "V1 up to 0.32.0 cannot print it" in log.all_notes


@pytest.mark.parametrize("before, after, preempted", [
    ((6, 0, 91.5), (5, 1, 94.9), True),
    ((6, 0, 91.5), (5, 0, 94.9), False),  # one ended
    ((6, 0, 91.5), (6, 1, 94.9), False),  # one came
    ((6, 0, 20.0), (5, 1, 30.0), False),  # there was room: it waits for something else
    ((6, 2, 99.0), (7, 1, 99.0), False),
])
def test_running_that_falls_while_waiting_rises_in_a_full_pool_is_the_sign(read, before, after, preempted):
    run = read(LINE.format(10, *before) + LINE.format(20, *after)).f.runtime
    assert run.preempted is preempted


def test_a_version_after_0_32_is_not_said_to_be_mute(read):
    text = LINE.format(10, 6, 0, 91.5) + LINE.format(20, 5, 1, 94.9)
    assert "cannot print" in read(text).all_notes
    assert "cannot print" not in read(CONFIG.format("0.33.0", "max_seq_len=1024") + text).all_notes


def test_swapped_requests_were_put_back(read):
    run = read("INFO 01-02 03:04:10 metrics.py:1] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 1.0 "
               "tokens/s, Running: 1 reqs, Swapped: 2 reqs, Pending: 0 reqs, GPU KV cache usage: 99.0%, CPU KV cache "
               "usage: 10.0%.\n").f.runtime  # fmt: skip
    assert run.preempted and run.preemptions_printed is None


def test_v0_prints_a_total_at_some_preemptions(read):
    text = ("WARNING 05-07 10:00:00 scheduler.py:1057] Sequence group 0 is preempted by PreemptionMode.RECOMPUTE mode "
            "because there is not enough KV cache space. This can affect the end-to-end performance. "
            "total_num_cumulative_preemption={}\n")  # fmt: skip
    run = read(text.format(1) + text.format(51)).f.runtime
    assert (run.preemptions_printed, run.preempted, run.lines) == (51, True, 0)


def test_the_suggestion_counts_cuda_graphs_twice(read):
    text = ("INFO 01-02 03:04:11 [gpu_worker.py:1] {}Free memory on device (23.31/23.56 GiB) on startup. Desired GPU "
            "memory utilization is (0.82, 19.32 GiB). Actual usage is 11.45 GiB for consumed memory (weights + "
            "non-torch), 1.0 GiB for peak activation, and 0.3 GiB for CUDAGraph memory. Replace gpu_memory_utilization "
            "config with `--kv-cache-memory=6895000000` (6.42 GiB) to fit into requested memory\n")
    unknown = read(text.format("")).all_notes
    assert "counts CUDA graphs twice" in unknown and "Without that" not in unknown
    known = read(text.format("Estimated CUDA graph memory: 0.36 GiB total\n")).all_notes
    assert "Without that it would be 6.78 GiB" in known and "0.36 GiB of 1.0" in known
    before = text.replace("consumed memory (weights + non-torch)", "weight").format("")
    assert "twice" not in read(before).all_notes  # until 0.21 nothing was estimated


def test_a_refusal_under_pipeline_parallelism_asks_one_stage_for_the_whole_model(read):
    log = read(CONFIG.format("0.15.1", "max_seq_len=262144, pipeline_parallel_size=2") + REFUSED)
    for words in ("In this version", "24.0 GiB, all layers", "about 12.00 GiB"):
        assert words in log.all_notes
    assert [knob.name for knob in log.knobs] == ["the version", "max_model_len", "gpu_memory_utilization"]
    assert "8.82 GiB more are needed" in log.knob("gpu_memory_utilization")  # for 12, not for 24


@pytest.mark.parametrize("head, named", [
    ("", False),  # one stage
    (CONFIG.format("0.13.0", "pipeline_parallel_size=2"), False),
    (CONFIG.format("0.32.0", "pipeline_parallel_size=2"), False),
    ("(Worker_PP1 pid=578) WARNING 01-02 03:04:18 [multiproc_executor.py:786] WorkerProc was terminated\n", True),
])
def test_only_the_versions_that_did_it_are_said_to(read, head, named):
    log = read(head + REFUSED)
    assert ("whole model's need" in log.all_notes) is named
    assert (log.knobs[0].name == "the version") is named


def test_a_minimal_pool_for_profiling_is_no_override(read):
    f = read("(Worker_TP0 pid=3) INFO 03-13 17:30:52 [kv_cache_utils.py:826] Overriding num_gpu_blocks=0 with "
             "num_gpu_blocks_override=16\n(Worker_TP0 pid=3) INFO 03-13 17:30:53 [gpu_worker.py:1] Available KV cache "
             "memory: 8.0 GiB\n").f  # fmt: skip
    assert (f.num_blocks, f.kv_cache_gib) == (None, 8.0)


def test_an_override_decides_and_vllms_advice_would_not_help(read):
    log = read("cpu-032-refused-pool-too-small")
    assert log.f.failure.detail["cause"] == "num_gpu_blocks_override"
    assert "would not help: the override decides" in log.all_notes and "19 are left" in log.all_notes
    assert [knob.name for knob in log.knobs] == ["num_gpu_blocks_override"] * 2 + ["max_model_len"]
    assert "728 blocks fit instead of 20" in log.knobs[0].effect and log.knobs[1].effect.startswith("65 or more")


def test_with_several_workers_tokens_and_gib_need_not_belong_together(read):
    log = read("rtx4090x2-v0-tp2-refused")
    assert log.d.get("bytes_per_token") is None
    assert "need not belong together" in log.all_notes and "of one GPU" in log.all_notes
