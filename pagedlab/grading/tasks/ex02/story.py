"""The run whose memory exercise 02 asks about. Its tables come from the seed, and not from the model."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pagedlab.grading.tasks.small_model import on_one_core

if TYPE_CHECKING:
    from pagedlab.attention import KVPool

TEXT = (
    "A program names its memory by pages that lie side by side, and the machine keeps them wherever a frame is free. "
    "Nobody but the page table knows, and nobody but the page table has to be asked before a byte can be read."
)
BLOCK_SIZE, NUM_BLOCKS = 4, 16
NUM_LAYERS, NUM_KV_HEADS, HEAD_SIZE = 30, 3, 64  # of SmolLM2-135M

# find(pool, table, position, layer, k_or_v, head) -> the byte of the pool where these numbers begin
Find = Callable[[Any, list[int], int, int, int, int], int]


@dataclass(frozen=True)
class Puzzle:
    """What a learner is told of a moment: two block tables, the pool's strides, and two questions."""

    seed: int
    tables: dict[str, list[int]]
    num_tokens: dict[str, int]  # in memory
    strides: tuple[int, ...]
    element_size: int
    wanted_key: tuple[int, int, int]  # position in A's text, layer, KV head: where does this key begin?
    given_layer: int
    given_byte: int  # where a value of this layer, of KV head 0, begins: whose is it?

    def __str__(self) -> str:
        position, layer, head = self.wanted_key
        lines = [f"block size  {BLOCK_SIZE}"]
        for name, table in self.tables.items():
            lines.append(f"request {name}   {self.num_tokens[name]} tokens in memory, block table {table}")
        lines += [
            f"strides     {self.strides}, in numbers of {self.element_size} bytes",
            f"there       the key of A's token {position}, in layer {layer}, KV head {head}",
            f"back        the value, in layer {self.given_layer}, KV head 0, that begins at byte {self.given_byte}",
        ]
        return "\n".join(lines)


def story(seed: int, model: Any = "tiny-random", *, block_table: Any = None, find: Find | None = None) -> Any:
    """A recording engine in the middle of two conversations, A and B; others came and went.

    ``block_table``: replaces ours. ``find``: where attention is to read each key and value; None is our own attention.
    """
    from pagedlab.engine import LLM, SamplingParams

    rng = random.Random(f"02 {seed}")
    lengths = {"A": rng.randint(5, 8), "B": rng.randint(3, 7)}
    short = {"C": (rng.randint(2, 6), rng.randint(2, 3)), "D": (rng.randint(2, 7), rng.randint(2, 4))}
    num_tokens_of_a = rng.randint(13, 17)

    knobs = {"block_size": BLOCK_SIZE, "num_gpu_blocks_override": NUM_BLOCKS, "enable_prefix_caching": False}

    def attention(*inputs: Any) -> Any:
        from pagedlab.grading.tasks.ex02.by_address import attention_by_address

        return attention_by_address(llm.executor.kv_pool, find, *inputs)

    parts = {"block_table": block_table, "attention": attention if find else None}
    llm = LLM(model, device="cpu", record=True, **knobs, **parts)
    tokens = llm.tokenizer.encode(TEXT)
    for name in rng.sample("ABCD", 4):
        start = rng.randint(0, 8)
        length, max_tokens = short.get(name) or (lengths[name], 40)
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        llm.add_request(tokens[start : start + length], params, request_id=name)
    while llm.requests["A"].num_computed_tokens < num_tokens_of_a:
        llm.step()
    return llm


def written(llm: Any) -> dict[tuple[str, int], tuple[int, int]]:
    """Where each token of A and B was written: (request, position) -> (block, offset)."""
    events = [e for e in llm.trace.events if e.kind == "slot_written" and e.request_id in "AB"]
    return {(e.request_id, e.position): (e.block_id, e.offset) for e in events}


def smollm2_pool() -> KVPool:
    """A pool of SmolLM2's size. It takes no memory until it is written."""
    from pagedlab.attention import KVPool

    return KVPool(NUM_LAYERS, NUM_BLOCKS, BLOCK_SIZE, NUM_KV_HEADS, HEAD_SIZE)


@lru_cache(maxsize=64)
def puzzle(seed: int) -> Puzzle:
    """The puzzle of a seed, from the small random model's run. ``print`` it."""
    from pagedlab.trace import replay

    with on_one_core():
        llm = story(seed)
    state = replay(llm.trace)
    count = {name: state.requests[name].num_computed_tokens for name in "AB"}

    rng = random.Random(f"02 questions {seed}")
    position = rng.choice([p for p in range(BLOCK_SIZE, count["A"]) if p % BLOCK_SIZE])
    layer, head = rng.randrange(1, NUM_LAYERS), rng.randrange(1, NUM_KV_HEADS)
    block, offset = rng.choice(
        [place for (name, p), place in written(llm).items() if name == "B" and p >= BLOCK_SIZE and p % BLOCK_SIZE]
    )
    given_layer = rng.randint(1, 3)

    pool = smollm2_pool()
    return Puzzle(
        seed,
        {name: list(state.tables[name]) for name in "AB"},
        count,
        tuple(pool.data.stride()),
        pool.data.element_size(),
        (position, layer, head),
        given_layer,
        pool.layer(given_layer).value[block, offset, 0].data_ptr() - pool.data.data_ptr(),
    )
