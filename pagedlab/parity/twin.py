"""Our engine as the twin of a vLLM that is watched: the same knobs, and the same prompts queued."""

from __future__ import annotations

from typing import Any

from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.trace import TraceDriver, replay


def twin(watched: TraceDriver, base: Any = "smollm2", *, ignore_eos: bool = False, **knobs: Any) -> LLM:
    """A recording ``LLM`` with the pool and limits of the vLLM under ``watched`` (``pagedlab.watch.of``), and with
    every request that waits there; no step is run. ``preemption(watched, twin(watched))`` steps both.

    ``base``: the model, or an ``LLM`` that has it. ``ignore_eos``: as the prompts were queued in vLLM. ``knobs``: what
    is to be other than there; ``era="paper"`` gives the paper's engine the same number of blocks to hand out.
    Raises PagedlabError where vLLM has begun already, for what ``LLM`` refuses, and for anything but a watched vLLM.
    """
    if not isinstance(watched, TraceDriver) or not str(watched.trace.header.get("engine")).startswith("vLLM "):
        raise PagedlabError(f"twin takes what pagedlab.watch.of(llm) returns, not a {type(watched).__name__}.")
    trace, config = watched.trace, watched.trace.header["config"]
    state = replay(trace)
    waiting = [state.requests[name] for name in state.waiting]
    if watched.num_steps or state.running or state.cached or not waiting:
        raise PagedlabError(
            "A twin begins where vLLM begins: watch it anew, with nothing running and an empty prefix cache "
            "(llm.reset_prefix_cache(), then pagedlab.watch.of(llm, anew=True)), queue the prompts, and make the twin "
            "before the first step."
        )
    same = {name: config[name] for name in ("block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")}
    if knobs.get("era", "v1") == "v1":
        same |= {"enable_prefix_caching": config["enable_prefix_caching"]}
        same |= {"num_gpu_blocks_override": config["num_blocks"]}
    else:
        same |= {"num_gpu_blocks_override": config["num_blocks"] - 1}  # V1 keeps block 0 for itself
    llm = LLM(base, record=True, **same | knobs)
    for request in waiting:
        params = SamplingParams(max_tokens=request.max_tokens, ignore_eos=ignore_eos)
        llm.add_request(request.token_ids, params, request_id=request.request_id)
    return llm
