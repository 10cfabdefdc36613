"""A model with sliding windows in vLLM and in ours: the same tables, free queue and tokens at every step.

vLLM serves it in a process of its own (this file as a script): a third engine beside those of the other tests would be
in their way.
"""

import json
import random
import subprocess
import sys

import pytest
import torch

from pagedlab.engine import LLM, SamplingParams
from pagedlab.kv.block import block_ids
from pagedlab.model.config import LlamaConfig
from pagedlab.model.export import save_hf_folder
from pagedlab.model.llama import LlamaModel
from pagedlab.model.tokenizer import byte_tokenizer
from pagedlab.model.weights import weight_slots

WINDOW = 48
LIMITS = {"max_model_len": 320, "block_size": 32, "num_gpu_blocks_override": 22, "max_num_batched_tokens": 64}
LIMITS |= {"max_num_seqs": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Random weights in sizes that vLLM's kernels have; every second layer has a window."""
    config = LlamaConfig(
        vocab_size=259, hidden_size=256, intermediate_size=256, num_layers=4, num_query_heads=4, num_kv_heads=2,
        head_size=64, rope_theta=1e4, rms_norm_eps=1e-5, max_model_len=512, tie_word_embeddings=False, name="hybrid",
        windows=(None, WINDOW) * 2,
    )  # fmt: skip
    model, generator = LlamaModel(config), torch.Generator().manual_seed(1)
    for slot in weight_slots(model).values():
        slot.copy_(1.0 if slot.dim() == 1 else torch.randn(slot.shape, generator=generator) * slot.shape[1] ** -0.5)
    folder = tmp_path_factory.mktemp("hybrid") / "model"
    save_hf_folder(model, byte_tokenizer(), folder)
    return folder


@pytest.fixture(scope="module")
def theirs(folder, tmp_path_factory):
    """Of each workload: vLLM's free queue before it, its moments, and its answers."""
    out = tmp_path_factory.mktemp("theirs") / "runs.json"
    done = subprocess.run([sys.executable, __file__, str(folder), str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text())


SEEDS = (1, 2, 3)


def workload(seed):
    """(step of arrival, tokens, how many more) of each request; half of them begin alike."""
    rng = random.Random(seed)
    common = [rng.randrange(250) for _ in range(130)]
    prompts = [common[: rng.randrange(60, 131)] for _ in "1234"]
    prompts = [prompt + [rng.randrange(250) for _ in range(rng.randrange(1, 60))] for prompt in prompts]
    prompts += [[rng.randrange(250) for _ in range(rng.randrange(10, 90))] for _ in "12345"]
    rng.shuffle(prompts)
    return [(rng.randrange(0, 30), tokens, rng.randrange(20, 110)) for tokens in prompts]


def run(engine_step, add, scheduler, moment, requests):
    """Step through a workload. Returns what ``moment`` says right after each ``schedule`` that scheduled somebody (vLLM
    makes empty steps too)."""
    moments, step, todo, schedule = [], 0, sorted(enumerate(requests), key=lambda r: r[1][0]), scheduler.schedule

    def watched_schedule(*args, **kwargs):
        output = schedule(*args, **kwargs)
        moments.append(moment(output))
        return output

    scheduler.schedule = watched_schedule
    try:
        while todo or engine_step(check=True):
            while todo and todo[0][1][0] <= step:
                i, (_, tokens, more) = todo.pop(0)
                add(f"r{i}", tokens, more)
            engine_step()
            step += 1
    finally:
        del scheduler.schedule
    return [moment for moment in moments if moment[0]]


def of_vllm(llm, requests):
    from vllm import SamplingParams as Params

    core, done = llm.llm_engine.engine_core.engine_core, {}
    manager, pool = core.scheduler.kv_cache_manager, core.scheduler.kv_cache_manager.block_pool

    def step(check=False):
        if check:
            return llm.llm_engine.has_unfinished_requests()
        done.update({o.request_id: list(o.outputs[0].token_ids) for o in llm.llm_engine.step() if o.finished})

    def add(name, tokens, more):
        params = Params(temperature=0, max_tokens=more, ignore_eos=True, detokenize=False)
        llm.llm_engine.add_request(name, {"prompt_token_ids": tokens}, params)

    def moment(output):
        tables = [
            {name.split("-")[0]: block_ids(blocks) for name, blocks in group.req_to_blocks.items() if blocks}
            for group in manager.coordinator.single_type_managers
        ]
        scheduled = {name.split("-")[0]: count for name, count in output.num_scheduled_tokens.items()}
        preempted = len(output.preempted_req_ids or ())
        return scheduled, tables, block_ids(pool.free_block_queue.get_all_free_blocks()), preempted

    return run(step, add, core.scheduler, moment, requests), done


def of_ours(folder, requests):
    llm, done = LLM(str(folder), device="cpu", **LIMITS), {}

    def step(check=False):
        if check:
            return llm.has_unfinished_requests()
        done.update({o.request_id: o.outputs[0].token_ids for o in llm.step() if o.finished})

    def add(name, tokens, more):
        llm.add_request(tokens, SamplingParams(max_tokens=more, ignore_eos=True), request_id=name)

    def moment(output):
        tables = [{r: block_ids(blocks) for r, blocks in g.req_to_blocks.items()} for g in llm.kv_cache_manager.groups]
        free = block_ids(llm.block_pool.free_block_queue.get_all_free_blocks())
        return dict(output.num_scheduled_tokens), tables, free, len(output.preempted)

    return run(step, add, llm.scheduler, moment, requests), done


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_free_queue_and_tokens_are_the_same_at_every_step(theirs, folder, seed):
    assert theirs["coordinator"] == "HybridKVCacheCoordinator"
    first_free, moments, tokens = theirs[str(seed)]
    mine, my_tokens = of_ours(folder, workload(seed))
    if seed == 1:  # later ones begin with vLLM's free queue as the run before left it: names go, the order stays
        assert first_free == list(range(1, LIMITS["num_gpu_blocks_override"]))
    order = {number: i for i, number in enumerate([0, *first_free])}
    for step, (their, own) in enumerate(zip(moments, mine, strict=True)):
        scheduled, tables, free, preempted = their
        renumbered = [{name: [order[b] for b in blocks] for name, blocks in table.items()} for table in tables]
        assert (scheduled, renumbered, [order[b] for b in free], preempted) == own, step
    assert my_tokens == tokens and len(tokens) == 9
    assert sum(preempted for *_, preempted in moments) and any(0 in t for _, (_, w), *_ in moments for t in w.values())


def main(folder, out):
    import vllm

    llm = vllm.LLM(folder, dtype="float32", enforce_eager=True, skip_tokenizer_init=True, **LIMITS)
    manager = llm.llm_engine.engine_core.engine_core.scheduler.kv_cache_manager
    runs = {"coordinator": type(manager.coordinator).__name__}
    for seed in SEEDS:
        llm.llm_engine.reset_prefix_cache()
        first_free = block_ids(manager.block_pool.free_block_queue.get_all_free_blocks())
        runs[str(seed)] = first_free, *of_vllm(llm, workload(seed))
    with open(out, "w") as file:
        json.dump(runs, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
