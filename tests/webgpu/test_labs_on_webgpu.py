"""The labs over an engine on WebGPU: they show what they show over torch, and their badges name the adapter."""

import re

import pytest

from pagedlab import LLM, SamplingParams
from pagedlab.bench.preemption import overload, run_out
from pagedlab.engine import EngineDriver
from pagedlab.viz import memory_map, preemption, prefix_hits

pytestmark = pytest.mark.usefixtures("gpu")
PROMPTS = [[(7 * i + 3 * j) % 200 + 1 for j in range(n)] for i, n in enumerate((12, 14, 10, 11, 8))]
TIME = re.compile(r"[\d,.]+ (ms|µs|s)\b")
GREEDY = SamplingParams(max_tokens=4, ignore_eos=True)


@pytest.fixture(scope="module")
def models():
    """On WebGPU, and in torch."""
    knobs = {"dtype": "float32", "num_gpu_blocks_override": 2}
    return [LLM("tiny-random", device=device, **knobs) for device in ("webgpu", "cpu")]


def engine(model):
    llm = LLM(model, record=True, block_size=4, num_gpu_blocks_override=16)
    for prompt in PROMPTS[:2]:
        llm.add_request(prompt, GREEDY)
    return llm


def different_words(labs, models, position):
    """Marks whose words differ at one step, but for the device in badges, and measured times."""
    ours, torchs = (model.executor.describe()["device"] for model in models)
    for lab in labs:
        lab.seek(position)
    words = [{mark.id: TIME.sub("", mark.text) for mark in lab.marks() if mark.text} for lab in labs]
    assert any(ours in text for text in words[0].values())
    differ = {id for id in words[0].keys() | words[1].keys() if words[0].get(id) != words[1].get(id)}
    # A longer badge leaves less room for chips and the head line; prices are seconds.
    return {id for id in differ if not re.match("badge|chip|head.line|price|title.pool|pool|[01]~cpu.says", id)}


def test_the_memory_map_steps_it_live_and_branches(models):
    labs = [memory_map(engine(model)) for model in models]
    for _ in range(4):
        for lab in labs:
            lab.forward()
    assert [lab.num_steps for lab in labs] == [4, 4]
    assert not set().union(*(different_words(labs, models, position) for position in range(5)))
    twins = [EngineDriver(engine(model)).branch(0, prompt="Another") for model in models]
    runs = [run_out(twin.llm).trace.events for twin in twins]
    ours, torchs = ([event.token_id for event in run if event.kind == "token_sampled"] for run in runs)
    assert ours == torchs and len(ours) > 8


def test_prefix_hits(models):
    labs = [prefix_hits(run_out(engine(model)), PROMPTS[0]).lab for model in models]
    assert not set().union(*(different_words(labs, models, position) for position in range(labs[0].num_steps + 1)))


def test_a_program_that_does_a_gpus_work_is_not_called_one(models):
    software = models[0].executor.gpu.info["adapter_type"] == "CPU"
    shown = [memory_map(engine(model)).marks() for model in models]
    titles = [next(mark.text for mark in marks if mark.id == "title.pool") for marks in shown]
    assert titles == ["MEMORY POOL" if software else "GPU MEMORY", "MEMORY POOL"]


def test_preemption(models):
    labs = [preemption(*(run_out(overload(model, how, PROMPTS)) for how in ("recompute", "swap"))) for model in models]
    some = range(0, labs[0].num_steps + 1, 5)
    assert not set().union(*(different_words(labs, models, position) for position in some))
