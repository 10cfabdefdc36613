"""Each kind of stop, in the words of several versions, and what to try."""

import pytest

ERROR = "(EngineCore_DP0 pid=1094) ERROR 02-08 10:00:21 [core.py:946] "


@pytest.mark.parametrize("message, kind, detail", [
    ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", "no_kv_memory",
     None),
    ("ValueError: Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token.",
     "no_kv_memory", None),
    ("ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in "
     "KV cache (86432). Try increasing", "pool_smaller_than_max_model_len",
     {"max_model_len": 131072, "fits_tokens": 86432}),
    ("ValueError: To serve at least one request with the models's max seq len (4096), (0.20 GB KV cache is needed, "
     "which is larger than the available KV cache memory (0.13 GB). Try increasing `gpu_memory_utilization`",
     "pool_smaller_than_max_model_len", {"needed_gib": 0.2, "available_gib": 0.13, "estimated_max_model_len": None}),
    ("ValueError: To serve at least one request with the model's max seq len (2048), (0.09 GiB KV cache is needed, "
     "which is larger than the available KV cache memory (0.03 GiB). Based on the available memory, the estimated "
     "maximum model length is 608. Try", "pool_smaller_than_max_model_len",
     {"needed_gib": 0.09, "available_gib": 0.03, "estimated_max_model_len": 608}),
    ("ValueError: Free memory on device cuda:0 (3.25/23.43 GiB) on startup is less than desired GPU memory utilization "
     "(0.96, 22.49 GiB). Decrease", "device_memory_taken",
     {"free_gib": 3.25, "wanted_gib": 22.49, "taken_by_others_gib": 20.18}),
    ("ValueError: Available memory on node 0 (8.1/16.21 GiB) on startup is less than desired CPU memory utilization "
     "(0.92, 14.91 GiB). On the CPU backend, the `--gpu-memory-utilization` flag", "device_memory_taken",
     {"free_gib": 8.1, "wanted_gib": 14.91, "taken_by_others_gib": 8.11}),
    ("ValueError: Available memory on node 0 (8.1/16.21 GiB) on kv cache allocation is less than requested memory for "
     "kv (12.0 GiB). Decrease", "device_memory_taken",
     {"free_gib": 8.1, "wanted_gib": 12.0, "taken_by_others_gib": None}),
    ("torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 19.98 "
     "GiB of which 512.00 MiB is free.", "out_of_memory", {"tried_gib": 2.5, "total_gib": 19.98, "free_gib": 0.5}),
    ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.69 GiB total capacity; "
     "22.86 GiB already allocated; 14.12 MiB free; 22.93 GiB reserved", "out_of_memory",
     {"tried_gib": 0.02, "total_gib": 23.69, "free_gib": 0.01}),
    ("RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try",
     "out_of_memory", {"tried_gib": None, "total_gib": None, "free_gib": None, "dummy_requests": 1024}),
    ("AssertionError: Error in memory profiling. Initial free memory 30.3 GiB, current free memory 30.3 GiB. This",
     "profiling_memory_grew", {"initial_free_gib": 30.3, "current_free_gib": 30.3}),
    ("AssertionError: Error in memory profiling. Initial used memory 10737418240, currently used memory 9663676416.",
     "profiling_memory_grew", {"initial_used_gib": 10.0, "current_used_gib": 9.0}),
    ("AssertionError: Error in memory profiling. Initial free memory 10737418240, current free memory 11811160064.",
     "profiling_memory_grew", {"initial_free_gib": 10.0, "current_free_gib": 11.0}),
])
def test_a_message_is_of_its_kind_with_its_figures(read, message, kind, detail):
    log = read(f"{ERROR}{message}\n")
    assert (log.f.failure.kind, log.f.failure.detail) == (kind, detail)
    assert len(log.knobs) == 3


NODE = "ValueError: Available memory on node 1 (8.1/16.21 GiB) on "


@pytest.mark.parametrize("message, names, highest", [
    (NODE + "startup is less than desired CPU memory utilization (0.92, 14.91 GiB).",
     ["other processes", "VLLM_CPU_KVCACHE_SPACE", "gpu_memory_utilization"], 0.49),
    (NODE + "kv cache allocation is less than requested memory for kv (12.0 GiB). Decrease",
     ["other processes", "VLLM_CPU_KVCACHE_SPACE", "another node"], None),
])  # fmt: skip
def test_a_cpus_memory_that_is_taken_gets_a_cpus_knobs(read, message, names, highest):
    log = read(f"{ERROR}{message}\n")
    assert log.f.device == "CPU" and log.f.total_gib == 16.21
    assert [knob.name for knob in log.knobs] == names
    assert not any(word in knob.effect for knob in log.knobs for word in ("nvidia", "CUDA", "card"))
    assert log.d.get("highest_utilization") == highest


@pytest.mark.parametrize("line", [
    "INFO 12-19 22:58:27 model_runner.py:1415] Capturing cudagraphs. If out-of-memory error occurs during cudagraph "
    "capture, consider decreasing `gpu_memory_utilization` or switching to eager mode.",
    "INFO 01-02 03:04:05 [gpu_worker.py:1] CUDA graph memory profiling is disabled. Without it, CUDA graph memory is "
    "not accounted for during KV cache allocation, which may require lowering --gpu-memory-utilization to avoid OOM.",
    '(EngineCore pid=1) ERROR 03-10 08:07:20 [core.py:302]     raise ValueError("No available memory for the cache ',
])
def test_what_only_warns_is_no_failure(read, line):
    assert read(f"{line}\nGPU KV cache size: 16 tokens\n").f.failure is None


def test_another_reason_to_stop_is_said_and_is_none_of_the_five(read):
    log = read(f"{ERROR}EngineCore failed to start.\n{ERROR}ValueError: max_num_seqs (1024) exceeds available Mamba "
               f"cache blocks (969). Each decode\n{ERROR}Engine core initialization failed. See root cause above.\n"
               "GPU KV cache size: 16 tokens\n")  # fmt: skip
    assert log.f.failure is None
    assert "max_num_seqs (1024) exceeds available Mamba cache blocks (969)" in log.all_notes


def test_the_first_message_counts_and_takes_figures_from_the_next(read):
    f = read(f"{ERROR}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 786.00 MiB. GPU 0 has a total "
             f"capacity of 79.11 GiB of which 140.75 MiB is free.\n{ERROR}RuntimeError: CUDA out of memory occurred "
             f"when warming up sampler with 256 dummy requests.\n{ERROR}ValueError: No available memory for the cache "
             "blocks.\n").f  # fmt: skip
    assert f.failure.kind == "out_of_memory"
    assert f.failure.detail == {"tried_gib": 0.77, "total_gib": 79.11, "free_gib": 0.14, "dummy_requests": 256}


LOADING = "INFO 01-02 03:04:05 [gpu_model_runner.py:1] Starting to load model a/b...\n"
LOADED = "INFO 01-02 03:04:06 [gpu_model_runner.py:1] Model loading took 14.0 GiB and 2.0 seconds\n"
POOL = "INFO 01-02 03:04:07 [kv_cache_utils.py:1] GPU KV cache size: 1,600 tokens\n"
RUNS = ("INFO 01-02 03:04:08 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation "
        "throughput: 9.0 tokens/s, Running: 9 reqs, Waiting: 0 reqs, GPU KV cache usage: 85.0%\n")
OOM = f"{ERROR}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n"


@pytest.mark.parametrize("before, phase, first", [
    ("", "", "gpu_memory_utilization"),
    (LOADING, "while the weights were loaded", "tensor_parallel_size"),
    (LOADING + LOADED, "in the profiling run, before the pool was made", "max_num_batched_tokens"),
    (LOADING + LOADED + POOL, "after the pool was made, in the warm-up or while CUDA graphs were captured",
     "gpu_memory_utilization"),
    (LOADING + LOADED + POOL + RUNS, "while requests were served", "gpu_memory_utilization"),
])
def test_when_memory_ran_out_decides_what_to_try_first(read, before, phase, first):
    log = read(before + OOM)
    assert (log.f.failure.phase, log.knobs[0].name) == (phase, first)
