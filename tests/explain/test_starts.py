"""Several starts, several engines, several workers in one log."""

import pytest

START = """INFO 06-01 10:00:00 [api_server.py:1] vLLM API server version 0.9.1
INFO 06-01 10:00:01 [cli_args.py:1] non-default args: {{'model': 'a/b', 'max_model_len': {length}}}
INFO 06-01 10:00:02 [core.py:70] Initializing a V1 LLM engine (v0.9.1) with config: model='a/b', max_seq_len={length}
INFO 06-01 10:00:09 [gpu_model_runner.py:1] Model loading took 7.5 GiB and 2.0 seconds
"""
POOL = """INFO 06-01 10:00:19 [kv_cache_utils.py:715] GPU KV cache size: {tokens} tokens
INFO 06-01 10:00:19 [kv_cache_utils.py:719] Maximum concurrency for {length} tokens per request: {many}x
"""
REFUSED = "ERROR 06-01 10:00:20 [core.py:1] ValueError: No available memory for the cache blocks. Try increasing\n"


def test_the_last_of_two_starts_counts_and_that_is_said(read):
    first = START.format(length=32768) + REFUSED
    log = read(first + START.format(length=16384) + POOL.format(tokens="65,536", length=16384, many="4.00"))
    assert log.f.num_starts == 2
    assert (log.f.failure, log.f.max_model_len, log.f.kv_cache_tokens) == (None, 16384, 65536)
    assert log.notes[0] == "The log holds 2 starts of vLLM. What is said here is of the last one."


def test_a_last_start_that_fails_takes_nothing_from_the_one_before(read):
    log = read(START.format(length=16384) + POOL.format(tokens="65,536", length=16384, many="4.00")
               + START.format(length=32768) + REFUSED)  # fmt: skip
    assert (log.f.failure.kind, log.f.kv_cache_tokens, log.f.max_concurrency) == ("no_kv_memory", None, None)


@pytest.mark.parametrize("text", [START.format(length=4096) + REFUSED, "".join(
    line for line in (START.format(length=4096) + REFUSED).splitlines(keepends=True) if "Initializing" not in line)])
def test_three_tries_are_three_starts_also_without_the_line_of_the_configuration(read, text):
    assert read(text * 3).f.num_starts == 3


def test_starts_without_any_header_are_told_apart_by_their_weights(read):
    one = ("Loading model weights took 14.9888 GB\n# GPU blocks: {}, # CPU blocks: 2048\n"
           "Maximum concurrency for {} tokens per request: {}x\n")
    f = read(one.format(1952, 20000, 1.56) + one.format(1478, 29000, 0.82)).f
    assert (f.num_starts, f.num_blocks, f.max_model_len, f.max_concurrency) == (2, 1478, 29000, 0.82)


ENGINE = """(EngineCore_DP{r} pid=1{r}) INFO 05-14 00:04:16 [gpu_model_runner.py:1] Model loading took 15.0 GiB and 2 s
(EngineCore_DP{r} pid=1{r}) INFO 05-14 00:04:17 [gpu_worker.py:298] Available KV cache memory: {gib} GiB
(EngineCore_DP{r} pid=1{r}) INFO 05-14 00:04:18 [kv_cache_utils.py:1087] GPU KV cache size: {tokens} tokens
(EngineCore_DP{r} pid=1{r}) INFO 05-14 00:04:18 [kv.py:1] Maximum concurrency for 4,096 tokens per request: {many}x
"""
INIT = ("(EngineCore_DP{r} pid=1{r}) INFO 05-14 00:04:01 [core.py:1] Initializing a V1 LLM engine (v0.11.0) with "
        "config: model='m', max_seq_len=4096, data_parallel_size=2\n")
LINE = ("(APIServer pid=1) INFO 05-14 00:05:00 [loggers.py:123] Engine {e}: Avg prompt throughput: 1.0 tokens/s, Avg "
        "generation throughput: 9.0 tokens/s, Running: {run} reqs, Waiting: {wait} reqs, GPU KV cache usage: {pct}%\n")


def test_data_parallel_engines_are_one_start_each_with_a_pool_of_its_own(read):
    log = read(
        INIT.format(r=0) + ENGINE.format(r=0, gib="50.0", tokens="409,600", many="100.00") + INIT.format(r=1)
        + ENGINE.format(r=1, gib="49.0", tokens="401,408", many="98.00")
        + LINE.format(e="000", run=9, wait=0, pct=90.0) + LINE.format(e="001", run=3, wait=2, pct=95.0)
    )  # fmt: skip
    f = log.f
    assert (f.num_starts, f.kv_cache_tokens, f.kv_cache_gib, f.max_concurrency) == (1, 401408, 49.0, 98.0)
    assert "2 data-parallel engines" in log.all_notes and "409,600, 401,408" in log.all_notes
    assert "same number of blocks" not in log.all_notes
    assert (f.runtime.lines, f.runtime.max_running, f.runtime.max_waiting) == (2, 9, 2)
    assert not f.runtime.preempted  # 9 to 3 running is another engine's line
    assert log.d.get("blocks_in_use") is None


def test_of_tensor_parallel_workers_the_smallest_pool_counts(read):
    worker = "(Worker_TP{r} pid=4{r}) INFO 08-14 14:07:22 [gpu_worker.py:1] "
    log = read("".join(
        worker.format(r=r) + f"Model loading took {w} GiB memory and 1.0 seconds\n" + worker.format(r=r)
        + f"Available KV cache memory: {kv} GiB\n" for r, w, kv in ((0, 11.3, 6.9), (1, 11.2, 6.87))))  # fmt: skip
    assert (log.f.num_starts, log.f.kv_cache_gib, log.f.weights_gib) == (1, 6.87, 11.2)
    assert "from 6.87 to 6.9 GiB" in log.all_notes and "of one GPU" in log.all_notes


def test_a_drafter_does_not_replace_the_models_weights(read):
    f = read("INFO 01-02 03:04:05 model_runner.py:1] Loading model weights took 14.98 GB\n"
             "INFO 01-02 03:04:06 model_runner.py:1] Loading model weights took 0.45 GB\n").f  # fmt: skip
    assert (f.weights_gib, f.num_starts) == (14.98, 1)
