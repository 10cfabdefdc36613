"""What does the size of a block cost, at both ends?

Small blocks: long tables, more calls of the memory manager, more iterations for a kernel that takes one block at a
time. Large blocks: more slots that stand empty in each request's last block, and less of a prompt that can be shared.

Everything is measured for the same work at each block size, in turns, and the best of some rounds counts: other
programs only add. Chapter 11 shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from pagedlab.attention import KVPool, LayerKV, paged_attention
from pagedlab.kv.serving import PagedMemory, ServedRequest, Serving

BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# SmolLM2-135M's attention.
QUERY_HEADS, KV_HEADS, HEAD_SIZE = 9, 3, 64


@dataclass(frozen=True)
class Memory:
    """One workload served at one block size. ``empty``: share of the slots held that hold no token; ``entries``: mean
    length of a running request's table; ``running``: requests at once; ``seconds``: of the memory manager (and the
    little loop around it), for each token written. Means are over the steps in which somebody waited."""

    empty: float
    entries: float
    running: float
    seconds: float


def memory_costs(
    load: Sequence[tuple[int, int]], *, num_slots: int, block_sizes: Sequence[int] = BLOCK_SIZES, rounds: int = 2
) -> dict[int, Memory]:
    """Serve ``load`` (prompt and output length of each request) from ``num_slots`` slots at each block size.

    Raises ValueError where a block size does not divide ``num_slots``, or nobody has to wait.
    """
    if odd := [size for size in block_sizes if num_slots % size]:
        raise ValueError(f"{num_slots} slots are no whole number of blocks of {odd[0]}")
    result: dict[int, Memory] = {}
    for _ in range(rounds):
        for size in block_sizes:
            memory = PagedMemory(1 + num_slots // size, size, num_slots)
            requests = [ServedRequest(f"r{i}", prompt, output) for i, (prompt, output) in enumerate(load)]
            started = time.thread_time()  # the processor's: other programs do not count
            serving = Serving(memory, requests)
            serving.run()
            seconds = (time.thread_time() - started) / sum(step.num_tokens for step in serving.steps)
            loaded = [step for step in serving.steps if step.waits]
            if not loaded:
                raise ValueError("nobody ever waited: give it more requests, or fewer slots")
            token = sum(step.account.token for step in loaded)
            held = token + sum(step.account.reserved + step.account.internal for step in loaded)
            running = sum(step.num_running for step in loaded)
            if size in result:
                seconds = min(seconds, result[size].seconds)
            result[size] = Memory(1 - token / held, held / size / running, running / len(loaded), seconds)
    return result


@dataclass(frozen=True)
class Reading:
    """Seconds of one decode attention (one query, one layer) at one block size. ``engine``: through
    ``paged_attention``; ``by_block``: one block an iteration, in torch; ``gather``: only bringing its blocks together
    into one place, K and V."""

    engine: float
    by_block: float
    gather: float


def reading_costs(
    context: int,
    *,
    block_sizes: Sequence[int] = BLOCK_SIZES,
    rounds: int = 12,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> tuple[float, dict[int, Reading]]:
    """(seconds of attention over contiguous K and V, the costs at each block size), for ``context`` tokens whose blocks
    lie scattered over a pool of twice that size. Raises ValueError where a block size does not divide ``context``."""
    if odd := [size for size in block_sizes if context % size]:
        raise ValueError(f"{context} tokens are no whole number of blocks of {odd[0]}")
    torch.manual_seed(seed)
    query = torch.randn(1, QUERY_HEADS, HEAD_SIZE, device=device, dtype=dtype)
    key, value = torch.randn(2, context, KV_HEADS, HEAD_SIZE, device=device, dtype=dtype)
    jobs: dict[tuple[int, str], Callable[[], object]] = {(0, "contiguous"): lambda: contiguous(query, key, value)}
    for size in block_sizes:
        layer, table = scattered(key, value, size)
        lengths = torch.tensor([context], dtype=torch.int32, device=device)
        starts = torch.tensor([0, 1], dtype=torch.int32, device=device)
        buffer = torch.empty(2, len(table), size, KV_HEADS, HEAD_SIZE, device=device, dtype=dtype)

        def engine(layer=layer, table=table, lengths=lengths, starts=starts):
            return paged_attention(query, layer, table[None], lengths, starts)

        def blocks(layer=layer, table=table):
            return by_block(query[0], layer, table.tolist(), context)

        def gather(layer=layer, table=table, buffer=buffer):
            torch.index_select(layer.key, 0, table, out=buffer[0])
            torch.index_select(layer.value, 0, table, out=buffer[1])

        jobs |= {(size, "engine"): engine, (size, "by_block"): blocks, (size, "gather"): gather}
    best = dict.fromkeys(jobs, float("inf"))
    for i in range(rounds):
        for name, job in jobs.items():
            if name[1] == "by_block" and i >= max(3, rounds // 4):
                continue  # the slow one, whose figure needs no care
            best[name] = min(best[name], seconds_of(job, query.device))
    costs = {size: Reading(*(best[size, what] for what in ("engine", "by_block", "gather"))) for size in block_sizes}
    return best[0, "contiguous"], costs


def indirection(
    context: int, block_size: int = 16, *, layers: int = 12, rounds: int = 6, seed: int = 0
) -> dict[str, float]:
    """Seconds a layer of each part of reading through a table, for one query over ``context`` tokens on the CPU:

    contiguous   attention over K and V that lie together
    look up      from positions to slots: a division, a look into the table, a multiplication and an addition for each
    gather       the rows of K and V at these slots, into one place
    attend       attention over that place

    Each layer has its own memory, as in a decode step: what was read in one is out of the caches when its turn comes
    again.
    """
    torch.manual_seed(seed)
    query = torch.randn(1, QUERY_HEADS, HEAD_SIZE)
    together = [torch.randn(2, context, KV_HEADS, HEAD_SIZE) for _ in range(layers)]
    paged = [scattered(*key_value, block_size) for key_value in together]
    buffer = torch.empty(2, context, KV_HEADS, HEAD_SIZE)

    def look_up(table: torch.Tensor) -> torch.Tensor:
        position = torch.arange(context)
        return table.long()[position // block_size] * block_size + position % block_size

    def gather(layer: LayerKV, slots: torch.Tensor) -> None:
        for part, out in zip((layer.key, layer.value), buffer, strict=True):
            torch.index_select(part.flatten(0, 1), 0, slots, out=out)

    best: dict[str, float] = {}
    for _ in range(rounds):
        total = dict.fromkeys(("contiguous", "look up", "gather", "attend"), 0.0)
        for key_value, (layer, table) in zip(together, paged, strict=True):
            slots = look_up(table)
            total["contiguous"] += seconds_of(lambda kv=key_value: contiguous(query, *kv), query.device)
            total["look up"] += seconds_of(lambda t=table: look_up(t), query.device)
            total["gather"] += seconds_of(lambda one=layer, s=slots: gather(one, s), query.device)
            total["attend"] += seconds_of(lambda: contiguous(query, *buffer), query.device)
        best = {name: min(seconds / layers, best.get(name, seconds)) for name, seconds in total.items()}
    return best


def scattered(key: torch.Tensor, value: torch.Tensor, block_size: int) -> tuple[LayerKV, torch.Tensor]:
    """K and V `[context, KV heads, head size]` in blocks that lie in a random order in a pool of twice the size; and
    their block table, int32 `[its blocks]`."""
    count = len(key) // block_size
    pool = KVPool(1, 2 * count + 1, block_size, *key.shape[1:], dtype=key.dtype, device=key.device)
    layer, table = pool.layer(0), 1 + torch.randperm(2 * count)[:count]
    table = table.to(key.device)
    layer.key[table] = key.unflatten(0, (count, block_size))
    layer.value[table] = value.unflatten(0, (count, block_size))
    return layer, table.to(torch.int32)


def contiguous(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attention as it was before paging: query `[1, query heads, head size]`, K and V `[context, KV heads, head size]`,
    one token after the other. The query heads of a KV head are its "queries", so that K and V are read once."""
    grouped = query.view(1, key.shape[1], -1, query.shape[-1])
    result = F.scaled_dot_product_attention(grouped, key.transpose(0, 1)[None], value.transpose(0, 1)[None])
    return result.view(query.shape)


def by_block(query: torch.Tensor, layer: LayerKV, table: list[int], context: int) -> torch.Tensor:
    """Paged attention of query `[query heads, head size]`, one block an iteration, all heads at once."""
    heads, width = query.shape
    grouped = query.view(layer.num_kv_heads, -1, width)
    shape = (*grouped.shape[:2], 1)
    largest, total = query.new_full(shape, -torch.inf), query.new_zeros(shape)
    weighted = torch.zeros_like(grouped)
    for i, block in enumerate(table):
        here = min(layer.block_size, context - i * layer.block_size)
        key, value = layer.key[block, :here].transpose(0, 1), layer.value[block, :here].transpose(0, 1)
        scores = grouped @ key.transpose(1, 2) * width**-0.5
        new_largest = torch.maximum(largest, scores.amax(-1, keepdim=True))
        shrink, weights = torch.exp(largest - new_largest), torch.exp(scores - new_largest)
        total = total * shrink + weights.sum(-1, keepdim=True)
        weighted = weighted * shrink + weights @ value
        largest = new_largest
    return (weighted / total).view(heads, width)


def seconds_of(job: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    job()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
