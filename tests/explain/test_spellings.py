"""How the versions spell the same figures. Lines as they stand in vLLM's source or in public threads."""

import pytest

V1 = "INFO 01-02 03:04:05 [gpu_worker.py:1] "


@pytest.mark.parametrize("line, figures", [
    # weights
    ("INFO 01-12 08:36:24 model_runner.py:1025] Loading model weights took 3.7710 GB", {"weights_gib": 3.771}),
    ("INFO 03-24 04:03:55 [gpu_model_runner.py:1176] Model loading took 14.9888 GB and 28.719376 seconds",
     {"weights_gib": 14.9888}),
    ("INFO 05-07 02:13:52 [gpu_model_runner.py:1347] Model loading took 0.2533 GiB and 0.907387 seconds",
     {"weights_gib": 0.2533}),
    (V1 + "Model loading took 15.0 GiB memory and 5.420225 seconds", {"weights_gib": 15.0}),
    # the pool's memory
    (V1 + "Available KV cache memory: 8.11 GiB", {"kv_cache_gib": 8.11}),
    (V1 + "Available KV cache memory: -1.05 GiB", {"kv_cache_gib": -1.05}),
    (V1 + "Initial free memory 78.84 GiB, reserved 20.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes "
     "config and skipped memory profiling.", {"free_at_start_gib": 78.84, "kv_cache_gib": 20.0}),
    # the pool's size
    ("INFO 03-20 02:29:07 [kv_cache_utils.py:537] GPU KV cache size: 178,880 tokens", {"kv_cache_tokens": 178880}),
    (V1 + "XPU KV cache size: 1,024 tokens, Maximum concurrency for 512 tokens per request: 2.00x",
     {"kv_cache_tokens": 1024, "max_model_len": 512, "max_concurrency": 2.0}),
    (V1 + "GPU + host KV cache size: 2,048 tokens, Maximum concurrency for 512 tokens per request: 4.00x",
     {"kv_cache_tokens": 2048, "max_model_len": 512, "max_concurrency": 4.0}),
    ("INFO 09-05 01:02:03 gpu_executor.py:122] # GPU blocks: 7823, # CPU blocks: 512", {"num_blocks": 7823}),
    ("INFO 01-16 09:40:00 executor_base.py:95] # CUDA blocks: 6001, # CPU blocks: 1638", {"num_blocks": 6001}),
    ("INFO 05-13 23:28:53 [executor_base.py:112] # cuda blocks: 512, # CPU blocks: 0", {"num_blocks": 512}),
    ("INFO 05-13 23:28:53 [executor_base.py:112] # CPU blocks: 7281, # CPU blocks: 0", {"num_blocks": 7281}),
    ("GPU blocks: 1952, # CPU blocks: 2048", {"num_blocks": 1952}),
    ("# GPU blocks: 1952, # CPU blocks: 2048", {"num_blocks": 1952}),
    (V1 + "Engine 000: vllm cache_config_info with initialization after num_gpu_blocks is: 28781",
     {"num_blocks": 28781}),
    (V1 + "2 Engines: vllm cache_config_info with initialization after num_gpu_blocks is: 28781",
     {"num_blocks": 28781}),
    ("INFO 01-02 03:04:09 gpu_executor.py:80] Maximum concurrency for 8192 tokens per request: 11.12x",
     {"max_model_len": 8192, "max_concurrency": 11.12}),
    (V1 + "Setting attention block size to 7808 tokens to ensure that attention page size is >= mamba page size.",
     {"block_size": 7808}),
    # CUDA graphs
    ("INFO 12-19 22:58:41 model_runner.py:1535] Graph capturing finished in 14 secs, took 0.21 GiB",
     {"cudagraph_gib": 0.21}),
    (V1 + "CUDA graph pool memory: 0.3 GiB (actual), 0.36 GiB (estimated), difference: 0.06 GiB (20.0%).",
     {"cudagraph_gib": 0.3, "cudagraph_estimate_gib": 0.36}),
    (V1 + "Estimated CUDA graph memory: 0.17 GiB total", {"cudagraph_estimate_gib": 0.17, "cudagraph_gib": None}),
    # the last line of a start
    (V1 + "Free memory on device (23.31/23.56 GiB) on startup. Desired GPU memory utilization is (0.82, 19.32 GiB). "
     "Actual usage is 11.26 GiB for weight, 1.0 GiB for peak activation, 0.19 GiB for non-torch memory, and 0.3 GiB "
     "for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=6895000000` to fit into "
     "requested memory, or `--kv-cache-memory=11000000000` to fully utilize gpu memory. Current kv cache memory in use "
     "is 7376000000 bytes.",
     {"free_at_start_gib": 23.31, "total_gib": 23.56, "utilization": 0.82, "budget_gib": 19.32, "weights_gib": 11.26,
      "activation_gib": 1.0, "non_torch_gib": 0.19, "cudagraph_gib": 0.3, "suggested_kv_bytes": 6895000000,
      "consumed_gib": None}),
    ("(EngineCore pid=28) INFO 04-15 06:30:01 [worker.py:575] Free memory on device (60.86/61.27 GiB) on startup. "
     "Desired GPU memory utilization is (0.9, 55.14 GiB). Actual usage: 1.14 GiB for weights, 0.22 GiB for peak "
     "activation, 0.13 GiB for non-torch memory, 0.04 GiB for NPU graph memory. Replace gpu_memory_utilization with "
     "`--kv-cache-memory=57403864576` (53.46 GiB) to fit",
     {"total_gib": 61.27, "weights_gib": 1.14, "activation_gib": 0.22, "non_torch_gib": 0.13, "cudagraph_gib": 0.04}),
    # DEBUG
    ("DEBUG 01-02 03:04:05 [gpu_worker.py:1] Initial free memory: 78.84 GiB; Requested memory: 0.920000 (util), 72.91 "
     "GiB", {"free_at_start_gib": 78.84, "utilization": 0.92, "budget_gib": 72.91}),
    ("DEBUG 01-02 03:04:05 [gpu_worker.py:1] Memory profiling takes 1.21 seconds. Total non KV cache memory: 11.76GiB; "
     "torch peak memory increase: 0.71GiB; non-torch forward increase memory: 0.21GiB; weights memory: 10.84GiB.",
     {"activation_gib": 0.71, "non_torch_gib": 0.21}),
    # CPU
    ("INFO 01-02 03:04:05 [cpu_worker.py:260] Auto set (2.5/16.21) GiB for KV cache on node 0, with 4.86 GiB requested "
     "memory for the worker. 2.36 GiB memory was consumed by non-kv usages.",
     {"kv_cache_gib": 2.5, "total_gib": 16.21, "budget_gib": 4.86, "consumed_gib": 2.36}),
    # what was asked for
    ("INFO 09-09 01:02:03 api_server.py:495] vLLM API server version 0.6.3.post1", {"vllm_version": "0.6.3.post1"}),
    ("INFO 09-09 01:02:03 llm_engine.py:226] Initializing an LLM engine (v0.6.0) with config: model='a/b', "
     "speculative_config=None, max_seq_len=4096, download_dir=None, tensor_parallel_size=2, pipeline_parallel_size=1, "
     "kv_cache_dtype=fp8, device_config=cuda, max_seq_len_to_capture=8192",
     {"vllm_version": "0.6.0", "model": "a/b", "max_model_len": 4096, "tensor_parallel": 2, "pipeline_parallel": 1,
      "kv_cache_dtype": "fp8", "device": "CUDA"}),
    ("INFO 09-09 01:02:03 [core.py:61] Initializing a V1 LLM engine (v0.8.3) with config: model='a/b', "
     "speculative_config=SpeculativeConfig(method='eagle', model='a/drafter', num_spec_tokens=2), max_seq_len=512",
     {"model": "a/b", "vllm_version": "0.8.3", "max_model_len": 512}),
    ("INFO 09-09 01:02:03 api_server.py:496] args: Namespace(host=None, model='meta/x', max_model_len=8192, "
     "pipeline_parallel_size=1, tensor_parallel_size=2, block_size=16, gpu_memory_utilization=0.85, max_num_seqs=256)",
     {"model": "meta/x", "max_model_len": 8192, "block_size": 16, "utilization": 0.85, "max_num_seqs": 256}),
    ("INFO 09-09 01:02:03 [utils.py:1] non-default args: {'model_tag': 'a/b', 'max_model_len': -1, 'block_size': 64, "
     "'gpu_memory_utilization': 0.5, 'tensor_parallel_size': 4}",
     {"model": "a/b", "max_model_len": None, "block_size": 64, "utilization": 0.5, "tensor_parallel": 4}),
    (V1 + "Auto-fit max_model_len: reduced from 10485760 to 324640 to fit in available GPU memory (29.72 GiB available "
     "for KV cache)", {"max_model_len": 324640}),
    (V1 + "Auto-fit max_model_len: full model context length 4096 fits in available KV cache memory (8.1 GiB GPU)",
     {"max_model_len": 4096}),
    (V1 + "Using max model len 2048", {"max_model_len": 2048}),
    ("(APIServer pid=281) INFO 03-08 16:41:25 [utils.py:292]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.17.0rc1.dev149",
     {"vllm_version": "0.17.0rc1.dev149"}),
    (V1 + "Using configuration from configs/E=128,N=768,device_name=NVIDIA_H200.json for MoE layer. KV",
     {"device": "NVIDIA H200"}),
])
def test_a_line_says_its_figures_and_nothing_else(read, line, figures):
    known = (V1 + "Available KV cache memory: 1.0 GiB\n") if "kv_cache_gib" not in figures else ""
    f = read(f"{known}{line}\n").f
    assert {name: getattr(f, name) for name in figures} == figures
    others = ("total_gib", "weights_gib", "kv_cache_tokens", "num_blocks", "max_concurrency", "failure", "runtime")
    assert [name for name in others if name not in figures and getattr(f, name) is not None] == []


def test_the_table_of_0_6_5(read):
    figures = {"total_gpu_memory": "79.22GiB", "gpu_memory_utilization": "0.90", "model weights take": "14.96GiB",
               "the current vLLM instance can use": "71.29GiB", "non_torch_memory": "1.79GiB",
               "PyTorch activation peak memory": "1.26GiB", "available_kv_cache_memory": "53.29GiB"}  # fmt: skip
    f = read("".join(f"INFO 12-13 19:54:18 worker.py:243] {name}     {size}\n" for name, size in figures.items())).f
    assert (f.total_gib, f.utilization, f.budget_gib) == (79.22, 0.9, 71.29)
    assert (f.weights_gib, f.non_torch_gib, f.activation_gib, f.kv_cache_gib) == (14.96, 1.79, 1.26, 53.29)


@pytest.mark.parametrize("line, wanted", [
    ("Engine 000: Avg prompt throughput: 600.0 tokens/s, Avg generation throughput: 98.9 tokens/s, Running: 1 reqs, "
     "Waiting: 2 reqs, GPU KV cache usage: 3.5%, Prefix cache hit rate: 4.0%, MFU: 1.7 TF/s/GPU 50.0 GB/s/GPU",
     (1, 2, 3.5, 4.0, None)),
    ("Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 5 reqs, Waiting: 0 reqs, "
     "GPU KV cache usage: 0.2%, Prefix cache hit rate: 0.0%", (5, 0, 0.2, 0.0, None)),
    ("Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 44.9 tokens/s, Running: 2 reqs, Swapped: 0 reqs, "
     "Pending: 3 reqs, GPU KV cache usage: 82.1%, CPU KV cache usage: 0.0%.", (2, 3, 82.1, None, None)),
    ("Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 1.0 tokens/s, Running: 4 reqs, "
     "Waiting: 6 reqs, Deferred: 2 reqs, KV fetch: 1 waiting to start, 0 in progress, 1 completed waiting, "
     "Preemptions: 7, GPU KV cache usage: 99.9%, Prefix cache hit rate: 8.0%, External prefix cache hit rate: 50.0%",
     (4, 6, 99.9, 8.0, 7)),
    ("2 Engines Aggregated: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 1.0 tokens/s, Running: 8 "
     "reqs, Waiting: 0 reqs, GPU KV cache usage: 9.0%", (8, 0, 9.0, None, None)),
])
def test_a_periodic_line_of_each_time(read, line, wanted):
    run = read(f"INFO 01-02 03:04:05 [loggers.py:1] {line}\n").f.runtime
    assert run.lines == 1
    assert (run.max_running, run.max_waiting, run.peak_kv_usage_pct, run.last_prefix_hit_pct,
            run.preemptions_printed) == wanted  # fmt: skip
    assert run.preempted is bool(wanted[4])


def test_v0_says_the_hit_rate_in_a_line_of_its_own_and_a_cpu_has_its_own_figure(read):
    text = ("INFO 05-25 06:50:29 [metrics.py:486] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 15.5 "
            "tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: {}%, CPU KV cache usage: "
            "{}%.\nINFO 05-25 06:50:29 [metrics.py:502] Prefix cache hit rate: GPU: 12.00%, CPU: 90.00%\n")
    gpu, cpu = read(text.format("5.0", "0.0")).f.runtime, read(text.format("0.0", "0.1")).f.runtime
    assert (gpu.peak_kv_usage_pct, gpu.last_prefix_hit_pct) == (5.0, 12.0)
    assert (cpu.peak_kv_usage_pct, cpu.last_prefix_hit_pct) == (0.1, 90.0)
