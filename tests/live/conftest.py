"""A live vLLM, in this process; and one in a notebook. `make test-vllm` runs both.

Without vLLM in this environment nothing here is collected, but for the notebook's test: it needs a browser, and so it
runs in the course's own environment, where it is asked for by its name.
"""

import importlib.util
import os

import pytest

HAS_VLLM = importlib.util.find_spec("vllm") is not None
IN_NOTEBOOK = "test_in_jupyterlab.py"

if HAS_VLLM:
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    os.environ |= {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")


def pytest_ignore_collect(collection_path, config):
    if collection_path.name == IN_NOTEBOOK:
        return HAS_VLLM or not any(IN_NOTEBOOK in argument for argument in config.args)
    return None if HAS_VLLM else True


NUM_BLOCKS, BLOCK_SIZE = 14, 32


def engine(**settings):
    """SmolLM2 in vLLM, with a pool so small that requests get in each other's way."""
    import vllm

    from pagedlab.model.export import exported

    return vllm.LLM(
        str(exported("smollm2")),
        **{
            "dtype": "float32",
            "enforce_eager": True,
            "max_model_len": 384,
            "block_size": BLOCK_SIZE,
            "num_gpu_blocks_override": NUM_BLOCKS,
            "max_num_seqs": 8,
            "max_num_batched_tokens": 256,
            "seed": 0,
        }
        | settings,
    )


@pytest.fixture(scope="session")
def vllm_llm():
    return engine()


@pytest.fixture
def core(vllm_llm):
    return vllm_llm.llm_engine.engine_core.engine_core


@pytest.fixture
def steps_of_vllm(core, monkeypatch):
    """How often vLLM's own model ran, by now."""
    counted, runner = [], core.model_executor
    execute = runner.execute_model
    monkeypatch.setattr(runner, "execute_model", lambda *args, **kwargs: counted.append(1) or execute(*args, **kwargs))
    return counted


@pytest.fixture
def watched(vllm_llm):
    """A driver over it. What the test before left is done first, and the prefix cache is dropped."""
    from pagedlab import watch

    driver = watch.of(vllm_llm)
    while driver.has_unfinished_requests():
        driver.llm.llm_engine.step()
    assert vllm_llm.reset_prefix_cache()
    driver.seek(driver.num_steps)
    return driver


@pytest.fixture
def anew(watched, vllm_llm):
    """A driver whose trace begins here: nothing runs, nothing is cached."""
    from pagedlab import watch

    return watch.of(vllm_llm, anew=True)
