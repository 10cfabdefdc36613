"""A workload served without a model: the package's own scheduler, manager and pool, and a made-up token for each that
a model would have sampled. Who runs and who makes room does not depend on the tokens."""

from __future__ import annotations

from collections.abc import Sequence

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.engine.scheduler import Scheduler
from pagedlab.kv import BlockPool, KVCacheManager


def served(load: Sequence[tuple[int, int]], num_blocks: int, block_size: int, max_num_seqs: int) -> dict | None:
    """``load``: (prompt, output) in tokens, in order of arrival. ``num_blocks``: the null block not counted. Returns
    how many requests ran at once (mean of all steps, one decimal) and how often one was thrown out; None where a
    request would never fit."""
    if any(-(-(prompt + output - 1) // block_size) > num_blocks for prompt, output in load):
        return None
    manager = KVCacheManager(BlockPool(num_blocks + 1, False), block_size, 10_000, False)
    scheduler = Scheduler(manager, max_num_seqs=max_num_seqs, max_num_batched_tokens=10_000, max_model_len=10_000)
    for i, (prompt, output) in enumerate(load):
        params = SamplingParams(max_tokens=output, ignore_eos=True)
        scheduler.add_request(Request(str(i), [0] * prompt, params, block_size=block_size, enable_caching=False))
    ran = steps = preemptions = 0
    while scheduler.has_unfinished_requests():
        output = scheduler.schedule()
        steps += 1
        ran += len(output.num_scheduled_tokens)
        preemptions += len(output.preempted)
        scheduler.update_from_output(output, dict.fromkeys(output.num_scheduled_tokens, 0), lambda request: False)
    return {"at_once": round(ran / steps, 1), "preemptions": preemptions}
