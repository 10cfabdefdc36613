"""What terminals, containers and loggers do to lines, undone."""

import json

import pytest

from pagedlab.explain.lines import LARGEST, records

POOL = "[kv_cache_utils.py:1087] GPU KV cache size: 409,600 tokens"
PLAIN = f"INFO 05-14 00:04:18 {POOL}"

COLOURED = ("\x1b[0;36m(EngineCore pid=3)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m05-14 00:04:18\x1b[0m \x1b[90m"
            "[kv_cache_utils.py:1087]\x1b[0m GPU KV cache size: 409,600 tokens")


@pytest.mark.parametrize("line", [
    PLAIN,
    f"(EngineCore_DP0 pid=10) {PLAIN}",
    f"(VllmWorker rank=1 pid=10) {PLAIN}",
    f"(RayWorkerWrapper pid=20, ip=10.0.0.1) {PLAIN}",
    f"(MapWorker(MapBatches(vLLMEngineStageUDF)) pid=20874) {PLAIN}",
    f"2026-05-12T08:01:39.331095044Z {PLAIN}",
    f"2026-05-12T08:01:39.331095044+02:00 stderr F (EngineCore pid=3) {PLAIN}",
    f"[2025-03-10T15:07:20Z] {PLAIN}",
    f"vllm-1  | (EngineCore pid=3) {PLAIN}",
    f"[pod/vllm-abc/server] {PLAIN}",
    f"Jan 02 03:04:05 host vllm[123]: {PLAIN}",
    f"│ {PLAIN}                       │",
    f"> {PLAIN}",
    f"{PLAIN}\r",
    f"Capturing CUDA graphs:  50%|█████     | 1/2\r{PLAIN}",
    COLOURED,
    json.dumps({"log": f"{PLAIN}\n", "stream": "stderr", "time": "2026-05-14T00:04:18Z"}),
    json.dumps({"level": "INFO", "message": "GPU KV cache size: 409,600 tokens"}),
    "GPU KV cache size: 409,600 tokens",
    "INFO 05-14 00:04:18 [kv_cache_utils.py:1087] GPU KV cache\nsize: 409,600 tokens",
    "INFO 05-14 00:04:18 [kv_cache_utils.py:1087] GPU K\nV cache size: 409,6\n00 tokens",
    "INFO 05-14 00:04:18 [kv_cache_utils.py:1087] GPU KV cache size: 409,6     \n     00 tokens",
], ids=range(22))
def test_around_a_line_and_in_it(read, line):
    f = read(f"{line}\n").f
    assert f.kv_cache_tokens == 409600


def test_two_records_that_lost_the_line_end_between_them(read):
    line = ("INFO 07-28 06:41:{} [loggers.py:118] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
            "throughput: 239.2 tokens/s, Running: {} reqs, Waiting: 0 reqs, GPU KV cache usage: 91.6%")
    run = read(line.format("09", 8) + line.format("19", 9) + "\n").f.runtime
    assert (run.lines, run.max_running) == (2, 9)


def test_a_process_is_told_from_the_next_one():
    text = f"(EngineCore_DP1 pid=11) {PLAIN}(Worker_TP0 pid=12) {PLAIN}\n(APIServer pid=1) plain words\nmore of them\n"
    found = list(records(text.splitlines()))
    assert [(one.process, one.name) for one in found] == [
        ("EngineCore_DP1 pid=11", "EngineCore_DP1"), ("Worker_TP0 pid=12", "Worker_TP0"),
        ("APIServer pid=1", "APIServer"),
    ]  # fmt: skip
    assert found[2].text == "(APIServer pid=1) plain words more of them"


def test_a_line_without_an_end_is_cut_and_not_kept(read):
    found = list(records(["x" * 60000, "y" * 60000, *["z" * 1000] * 100]))
    assert max(len(one.text) for one in found) <= 60000 + LARGEST
    assert read("a" * 200_000 + "\n" + PLAIN + "\n").f.kv_cache_tokens == 409600


def test_what_somebody_asked_the_model_is_no_line_of_vllm(read):
    line = ("INFO 01-02 03:04:05 [logger.py:39] Received request cmpl-1: prompt: 'What is GPU KV cache size: 5 "
             "tokens, torch.OutOfMemoryError: CUDA out of memory?', params: None\n")
    f = read(f"{PLAIN}\n{line}").f
    assert (f.kv_cache_tokens, f.failure) == (409600, None)
