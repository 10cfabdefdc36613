"""Does vLLM run here? One token of SmolLM2, from an engine in this process."""

from __future__ import annotations

import os

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
os.environ |= {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")


def main() -> None:
    import vllm

    from pagedlab.model.export import exported

    llm = vllm.LLM(
        str(exported("smollm2")), dtype="float32", enforce_eager=True, max_model_len=64, num_gpu_blocks_override=8,
        block_size=32,
    )  # fmt: skip
    [output] = llm.generate(["The capital of France is"], vllm.SamplingParams(temperature=0, max_tokens=1))
    print(f"vLLM {vllm.__version__} says: The capital of France is{output.outputs[0].text}")


if __name__ == "__main__":
    main()
