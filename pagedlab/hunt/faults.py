"""Which faults, what each does, and the public report of such a bug in a real engine."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from pagedlab.engine import LLM
from pagedlab.hunt import parts, stories
from pagedlab.trace import Trace


@dataclass(frozen=True)
class Fault:
    """One fault. ``what``: one sentence; ``harm``: what a user notices; ``rule``: the first rule of
    ``pagedlab.trace.invariants`` that it breaks; ``report`` and ``title``: where such a bug was reported; ``parts``:
    what replaces ours; ``knobs``: of the engine; ``story``: the workload."""

    name: str
    what: str
    harm: str
    rule: str
    report: str
    title: str
    parts: dict[str, Any]
    story: Callable[[stories.Story], None]
    knobs: dict[str, Any] = field(default_factory=dict)


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "stale name",
            "A block is handed out again, but its old name still leads to it.",
            "A request reads somebody else's tokens.",
            "found",
            "GeeeekExplorer/nano-vllm#163",
            "Stale hash mapping remains in `hash_to_block_id` when reallocating blocks in `BlockManager` [Bug]",
            {"block_pool": parts.KeepsStaleNames},
            stories.a_prompt_comes_again_after_a_flood,
        ),
        Fault(
            "missing owner",
            "A block that is in use is shared with a second request, and the second one is not counted.",
            "When the first ends, the block is handed out under the second.",
            "owners",
            "Avarok-Cybersecurity/atlas#373",
            "fix(kv): prefix-cache refcount + block aliasing (CUDA-700, pool leak, HSS mis-filing)",
            {"block_pool": parts.ForgetsTheSecondOwner},
            stories.the_first_of_two_ends_early,
        ),
        Fault(
            "full hit",
            "Where the whole prompt is found, its last block is shared as well, and its last token computed into it.",
            "A shared block is written to, and the names of the blocks behind it come out of step.",
            "written once",
            "vllm-project/vllm#11186",
            "[Bugfix][V1] Re-compute an entire block when fully cache hit",
            {"kv_cache_manager": parts.ComputesOnlyTheLastToken},
            stories.the_same_question_at_once,
        ),
        Fault(
            "double free",
            "One block stands twice in the list that a request gives back.",
            "A shared block becomes free while somebody still reads it.",
            "owners",
            "vllm-project/vllm#42571",
            "[Bug]: KV Block double free when using eager SimpleCPUOffloading + Sliding window attention",
            {"block_pool": parts.Trusting, "kv_cache_manager": parts.NamesABlockTwice},
            stories.the_first_of_two_ends_early,
        ),
        Fault(
            "late copy",
            "A shared block is copied after it was written to, instead of before.",
            "The others read a word that they never said.",
            "written once",
            "NVIDIA/TensorRT-LLM#9056",
            "[https://nvbugs/5627710][fix] Fix synchronization bugs in KvCacheTransferManager that can cause corrupted "
            "blocks",
            {"kv_cache_manager": parts.CopiesLate},
            stories.three_answers,
            {"era": "paper"},
        ),
        Fault(
            "free order",
            "A table is given back from its first block on.",
            "The start of a prompt is forgotten first, and what follows it can never be found again.",
            "reachable",
            "vllm-project/vllm#48489",
            "[Bug]: Deferred block-free path loses per-group eviction ordering for hybrid KV cache configs",
            {"kv_cache_manager": parts.FreesFromTheStart},
            stories.an_old_prompt_and_a_shortage,
        ),
        Fault(
            "early touch",
            "Found blocks are taken before it is clear that the rest will fit; the request is refused, and keeps them.",
            "Blocks leak at each try, until nothing fits any more.",
            "idle",
            "vllm-project/vllm#11562",
            "[Bug]: assert total_num_scheduled_tokens > 0",
            {"kv_cache_manager": parts.TouchesBeforeItKnows},
            stories.it_is_found_but_does_not_fit,
        ),
        Fault(
            "kept count",
            "A request is thrown out and comes back with the number of computed tokens that it had before.",
            "It reads blocks into which nobody has written.",
            "own tokens",
            "vllm-project/vllm-omni#6053",
            "Fix MiniCPM bug",
            {"scheduler": parts.KeepsItsCount},
            stories.three_grow_and_one_makes_room,
            {"enable_prefix_caching": False, "num_gpu_blocks_override": 10},
        ),
        Fault(
            "early name",
            "A block gets its name before all of it is computed.",
            "Who finds it reads what is not there.",
            "names",
            "vllm-project/vllm#34587",
            "[Bugfix] - Fix Mamba prefix caching corruption with chunked prefill",
            {"kv_cache_manager": parts.NamesBeforeItIsFull},
            stories.a_reader_leaves_in_the_middle,
            {"max_num_batched_tokens": 10},
        ),
        Fault(
            "old table",
            "A request comes back with new blocks, which are added to its old table instead of replacing it.",
            "It reads and writes blocks that belong to others by now.",
            "place",
            "vllm-project/vllm#46595",
            "[Bugfix][MooncakeStore] track resumed requests via scheduler's resumed_req_ids",
            {"scheduler": parts.AppendsToTheOldTable},
            stories.three_grow_and_one_makes_room,
            {"enable_prefix_caching": False, "num_gpu_blocks_override": 10},
        ),
    )
}

# Not one of the ten: for showing how to look.
EXAMPLE = Fault(
    "no copy",
    "A shared block is written to, and never copied.",
    "The others read a word that they never said.",
    "written once",
    "Avarok-Cybersecurity/atlas#1193",
    "Prefix cache shares a partially-filled tail KV block with no copy-on-write (default ON)",
    {"kv_cache_manager": parts.NeverCopies},
    stories.three_answers,
    {"era": "paper"},
)


def record(name: str, seed: int = 0, model: Any = "tiny-random") -> Trace:
    """The engine with this fault in it, on its workload. The run may end early: a broken engine often does, and then
    the header's ``crash`` has the error.

    Each event's ``source`` names the function of ours that the faulty part stands in for: a trace does not give its
    fault away.
    """
    fault = EXAMPLE if name == EXAMPLE.name else FAULTS[name]
    return _run(fault, seed, model, fault.parts)


def honest(name: str, seed: int = 0, model: Any = "tiny-random") -> Trace:
    """The same workload with our own parts."""
    fault = EXAMPLE if name == EXAMPLE.name else FAULTS[name]
    return _run(fault, seed, model, {})


def _run(fault: Fault, seed: int, model: Any, replaced: dict[str, Any]) -> Trace:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batches this small are quickest on one core
    try:
        return _one_run(fault, seed, model, replaced)
    finally:
        torch.set_num_threads(threads)


def _one_run(fault: Fault, seed: int, model: Any, replaced: dict[str, Any]) -> Trace:
    knobs = {"block_size": stories.BLOCK_SIZE, "num_gpu_blocks_override": 15} | fault.knobs
    llm = LLM(model, device="cpu", record=True, **knobs, **replaced)
    crash = ""
    try:
        fault.story(stories.Story(llm, random.Random(f"12 {fault.name} {seed}")))
    except (ValueError, IndexError, KeyError) as error:
        crash = f"{type(error).__name__}: {error}"
    events = [dataclasses.replace(event, source=_claimed(event.source)) for event in llm.trace.events]
    return Trace(llm.trace.header | {"crash": crash}, events)


def _claimed(source: str) -> str:
    """Where ``source`` is a faulty part's function: the function that it stands in for."""
    module, _, name = source.partition(":")
    if module != parts.__name__:
        return source
    owner, _, function = name.partition(".")
    with contextlib.suppress(StopIteration):
        bases = getattr(parts, owner).__mro__[1:]
        base = next(cls for cls in bases if function in vars(cls) and cls.__module__ != module)
        return f"{base.__module__}:{base.__qualname__}.{function}"
    return sys.modules[module].__name__
