"""An executor without torch: its "model" is a checksum over what lies in memory.

It is here to show what an executor is, and to prove that the engine needs no more than that. Keys and values are the
tokens and their positions, in lists; the next token follows from all that the block table leads to, so a wrong table
gives a wrong token. And it is late, like a GPU: work waits in a queue until somebody asks for an answer.
"""

from __future__ import annotations

import copy
import hashlib
import math
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from pagedlab.errors import PagedlabError, whole
from pagedlab.executor.abstract import Draw, SamplerOutput, SamplingMetadata, ScheduledRequest, model_shape
from pagedlab.executor.pool_size import MemoryInUse, PoolBudget, plan_pool
from pagedlab.model.config import LlamaConfig

if TYPE_CHECKING:
    from pagedlab.engine.config import EngineConfig

Slot = tuple[int, int]  # a token and its position: what is its key here, and its value
EMPTY: Slot = (0, 0)
SIZES = LlamaConfig(
    vocab_size=259, hidden_size=1, intermediate_size=1, num_layers=1, num_query_heads=1, num_kv_heads=1, head_size=1,
    rope_theta=1.0, rms_norm_eps=1.0, max_model_len=512, tie_word_embeddings=True, name="counting",
)  # fmt: skip
MODELS = {"counting": SIZES, "counting-hybrid": replace(SIZES, name="counting-hybrid", num_layers=2, windows=(None, 6))}
BYTES = sys.getsizeof(1 << 20)  # of a number in a list


def logits_after(seen: list[Slot], seed: int) -> list[float]:
    """The model: [vocabulary] after these tokens and positions, in their order."""
    noise = random.Random(hashlib.sha256(repr((seed, seen)).encode()).digest())
    return [noise.gauss(0.0, 2.0) for _ in range(SIZES.vocab_size)]


def choose(logits: list[float], draw: Draw) -> int:
    """A token id from ``logits`` [vocabulary]: the likeliest, or one at random after temperature, top-k and top-p."""
    order = sorted(range(len(logits)), key=lambda token: -logits[token])
    if draw.temperature == 0:
        return order[0]
    kept = order[: draw.top_k or None]
    weights = [math.exp((logits[token] - logits[order[0]]) / draw.temperature) for token in kept]
    total, before = sum(weights), 0.0
    for i, weight in enumerate(weights):
        if before >= draw.top_p * total:
            weights[i] = 0.0
        before += weight
    return random.Random(draw.generator_seed).choices(kept, weights)[0]


class CountingExecutor:
    """See :class:`pagedlab.executor.Executor`. ``LLM(device="counting")`` takes it. model: "counting", or
    "counting-hybrid", which looks at everything and then once more at the last six tokens."""

    sampler = staticmethod(choose)
    can_be_batch_invariant = True  # nothing is added up over a batch

    def __init__(self, model: str = "counting", *, device: Any = None, dtype: Any = None, seed: int = 0) -> None:
        if model not in MODELS or dtype is not None:
            raise PagedlabError(f'The device "counting" has no dtype, and one of these models: {", ".join(MODELS)}.')
        from pagedlab.model.tokenizer import byte_tokenizer

        self.model_config, self.tokenizer, self.seed = MODELS[model], byte_tokenizer(), seed
        self.close()

    def share(self) -> CountingExecutor:
        twin = copy.copy(self)
        twin.close()
        return twin

    def close(self) -> None:
        self._pool: list[list[Slot]] = []
        self._cpu_pool: list[list[Slot]] = []
        self._queue: list[Callable[[], None]] = []
        self._drawn: dict[str, list[int]] = {}  # in the last batch, by request; filled when its turn comes

    def plan(self, config: EngineConfig) -> PoolBudget:
        return plan_pool(self.model_config, BYTES, MemoryInUse(config.device_memory, 0, 0, 0, measured=False), config)

    def initialize(self, config: EngineConfig, budget: PoolBudget) -> None:
        if self._pool:
            raise PagedlabError("This executor serves an engine already; give the second one executor.share().")
        self._block_size = config.block_size
        self._pool, self._cpu_pool = (
            [[EMPTY] * config.block_size for _ in range(count)] for count in (budget.num_blocks, budget.num_cpu_blocks)
        )

    def describe(self) -> dict[str, Any]:
        c = self.model_config
        return {
            "torch": None,
            "triton": None,
            "device": "counting",
            "compute_capability": None,
            "attention_backend": "counting",
            "dtype": "int",
            "precision": "exact",
            "model": c.name,
            "model_shape": model_shape(c) | {"bytes_per_element": BYTES},
        }

    # --------------------------------------------------------------------------------------------------------- steps

    def submit(self, batch: list[ScheduledRequest], sampling: SamplingMetadata) -> list[SamplerOutput]:
        """What the batch says now is copied now: it may change before its turn comes."""
        parts = [
            (
                part.request_id,
                part.token_ids[part.start : part.end],
                part.start,
                [table.slot_mapping(part.start, part.end) for table in part.tables],
                [list(table.block_ids) for table in part.tables],
            )
            for part in batch
        ]
        for *_, slots, tables in parts:
            places = [*chain(*tables), *(slot // self._block_size for slot in chain(*slots))]
            if wrong := [block for block in places if not 0 <= block < len(self._pool)]:
                raise PagedlabError(f"There is no block {wrong[0]}; ids go from 0 to {len(self._pool) - 1}.")
        last, names = self._drawn, [batch[draw.row].request_id for draw in sampling.draws]
        awaited = [part.request_id for part in batch if part.is_awaited and part.drawn_in(last) is not None]
        drawn = self._drawn = {name: [] for name in names}
        handle: list[SamplerOutput] = []

        def work() -> None:
            known = {name: last[name][-1] for name in awaited}
            handle.append(self._compute(parts, known, sampling))
            for name, token_id in zip(names, handle[0].token_ids, strict=True):
                drawn[name].append(token_id)

        self._queue.append(work)
        return handle

    def collect(self, handle: list[SamplerOutput]) -> SamplerOutput:
        while not handle:
            self._queue.pop(0)()
        return handle.pop()

    def _compute(self, parts: list[tuple], known: dict[str, int], sampling: SamplingMetadata) -> SamplerOutput:
        """``known``: by request, the tokens that were awaited when the batch was submitted."""
        for name, tokens, start, slots, _ in parts:  # all of the step's first: they may be read in the same step
            tokens += [known[name]] if name in known else []
            for of_group in slots:
                for position, (token, slot) in enumerate(zip(tokens, of_group, strict=True), start):
                    self._pool[slot // self._block_size][slot % self._block_size] = (token, position)
        logits = [self._logits(start + len(tokens), tables) for _, tokens, start, _, tables in parts]
        token_ids = [self.sampler(logits[draw.row], draw) for draw in sampling.draws]
        return SamplerOutput(token_ids, [logits[row] for row in sampling.logits])

    def _logits(self, context: int, tables: list[list[int]]) -> list[float]:
        """[vocabulary], from everything that the tables lead to, as far back as each group of layers looks."""
        size, seen = self._block_size, []
        for group, blocks in zip(self.model_config.layer_groups, tables, strict=True):
            first = max(0, context - (group.window or context))
            seen += [self._pool[blocks[position // size]][position % size] for position in range(first, context)]
        return logits_after(seen, self.seed)

    # -------------------------------------------------------------------------------------------------------- memory

    def copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        self._move(self._pool, self._pool, pairs)

    def swap_out(self, pairs: list[tuple[int, int]]) -> None:
        self._move(self._pool, self._cpu_pool, pairs)

    def swap_in(self, pairs: list[tuple[int, int]]) -> None:
        self._move(self._cpu_pool, self._pool, pairs)

    def _move(self, origin: list, target: list, pairs: list[tuple[int, int]]) -> None:
        pairs = list(pairs)

        def work() -> None:
            for (_, to), slots in zip(pairs, [list(origin[source]) for source, _ in pairs], strict=True):
                target[to] = slots

        self._queue.append(work)

    def _wait(self) -> None:
        while self._queue:
            self._queue.pop(0)()

    def read_block(self, layer: int, block: int) -> tuple[list, list]:
        for name, index, most in (("layer", layer, self.model_config.num_layers), ("block", block, len(self._pool))):
            if not 0 <= whole(index, name) < most:
                raise PagedlabError(f"There is no {name} {index}; allowed are 0 to {most - 1}.")
        self._wait()
        key, value = ([[[float(slot[i])]] for slot in self._pool[block]] for i in (0, 1))
        return key, value

    def snapshot(self, blocks: list[int], cpu_blocks: list[int]) -> list[dict[int, list[Slot]]]:
        self._wait()
        pools = ((self._pool, blocks), (self._cpu_pool, cpu_blocks))
        return [{block: list(pool[block]) for block in ids} for pool, ids in pools]

    def restore(self, snapshot: list[dict[int, list[Slot]]], clear: list[int]) -> None:
        self._wait()
        for block in clear:
            self._pool[block] = [EMPTY] * self._block_size
        for pool, kept in zip((self._pool, self._cpu_pool), snapshot, strict=True):
            for block, slots in kept.items():
                pool[block] = list(slots)
