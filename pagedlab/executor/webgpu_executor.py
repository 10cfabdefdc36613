"""The model on any GPU with WebGPU (Metal, Direct3D 12, Vulkan): weights, K and V lie in its buffers, a step is one
submission, and what comes back are the tokens that were chosen."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pagedlab.errors import PagedlabError, whole
from pagedlab.executor.abstract import SamplerOutput, SamplingMetadata, ScheduledRequest
from pagedlab.executor.pool_size import MemoryInUse, PoolBudget, activation_peak, most_tokens, plan_pool
from pagedlab.executor.runner import last_one_writes
from pagedlab.executor.sampling import sample
from pagedlab.executor.webgpu_model import LANES, Program, WebGPUModel
from pagedlab.kernels.pairs import check_pairs
from pagedlab.kernels.wgsl.gpu import encode, open_gpu
from pagedlab.model.weights import load_model

if TYPE_CHECKING:
    from pagedlab.engine.config import EngineConfig

TOKENS_AT_A_TIME = 512  # of a long prompt: more need larger buffers, and are not quicker
DTYPES = ("float32", "float16")


class WebGPUExecutor:
    """See :class:`pagedlab.executor.Executor`.

    model: a name, as of ``pagedlab.model.weights.load_model``. dtype: "float16" or "float32"; None is float16 where the
    adapter has it. seed: of random weights.
    """

    sampler = staticmethod(sample)

    def __init__(self, model: str = "smollm2", *, device: Any = None, dtype: Any = None, seed: int = 0) -> None:
        self.gpu = open_gpu()
        name = str(dtype or ("float16" if self.gpu.has_f16 else "float32")).removeprefix("torch.")
        if name not in DTYPES or (name == "float16" and not self.gpu.has_f16):
            known = " and ".join(DTYPES if self.gpu.has_f16 else DTYPES[:1])
            raise PagedlabError(f"dtype is {dtype!r}; {self.gpu.name} has {known}.")
        self.model, self.tokenizer = load_model(model, device="cpu", dtype=torch.float32, seed=seed)
        self.model_config = self.model.config
        self.weights = WebGPUModel(self.gpu, self.model, name)
        self.close()

    def share(self) -> WebGPUExecutor:
        twin = copy.copy(self)
        twin.close()
        return twin

    def close(self) -> None:
        self.pool: list[tuple[Any, Any]] | None = None  # of each layer: K, V [blocks, block size, KV heads, head size]
        self.program: Program | None = None

    def describe(self) -> dict[str, Any]:
        c, dtype = self.model_config, self.weights.dtype
        shape = {name: getattr(c, name) for name in ("num_layers", "num_query_heads", "num_kv_heads", "head_size")}
        return {
            "torch": torch.__version__,
            "triton": None,
            "device": self.gpu.name,
            "compute_capability": None,
            "attention_backend": "webgpu",
            "dtype": dtype,
            "precision": "float32",
            "model": c.name,
            "model_shape": shape | {"bytes_per_element": np.dtype(dtype).itemsize},
        }

    # -------------------------------------------------------------------------------------------------------- memory

    def plan(self, config: EngineConfig) -> PoolBudget:
        activations = activation_peak(self.model_config, 4, config)
        used = MemoryInUse(config.device_memory, self.weights.num_bytes, activations, 0, measured=False)
        return plan_pool(self.model_config, np.dtype(self.weights.dtype).itemsize, used, config)

    def initialize(self, config: EngineConfig, budget: PoolBudget) -> None:
        if self.program is not None:
            raise PagedlabError("This executor serves an engine already; give the second one executor.share().")
        c = self.model_config
        self.num_blocks, self.block_size = budget.num_blocks, config.block_size
        self._block_shape = (config.block_size, c.num_kv_heads, c.head_size)
        self._block_bytes = int(np.prod(self._block_shape)) * np.dtype(self.weights.dtype).itemsize
        pool = [
            tuple(self.gpu.buffer(budget.num_blocks * self._block_bytes, f"K of {budget.num_blocks} blocks")
                  for _ in ("K", "V"))
            for _ in range(c.num_layers)
        ]  # fmt: skip
        self._cpu_pool = np.zeros((c.num_layers, 2, budget.num_cpu_blocks, *self._block_shape), self.weights.dtype)
        numbers = int(np.prod(self._block_shape))
        self._move = self.gpu.kernel("move_blocks", self.weights.dtype, BLOCK=numbers, LANES=LANES)
        self._zeros = self.gpu.buffer(self._block_bytes, "A block")
        self._table_width = -(-config.max_model_len // config.block_size) + 1
        self.program = Program(
            self.weights, pool, block_size=config.block_size, table_width=self._table_width,
            most_tokens=min(most_tokens(config), TOKENS_AT_A_TIME), most_rows=config.max_num_seqs,
        )  # fmt: skip
        self.pool = pool

    def _moves(self, jobs: list[tuple[Any, Any]], sources: list[int], destinations: list[int]) -> list:
        """What copies these blocks from each origin to its copies."""
        ids = [self.gpu.upload(np.array(blocks, np.uint32), "Block ids") for blocks in (sources, destinations)]
        move, groups = self._move, (len(sources),)
        return [(move.pipeline, move.bind(origin, *ids, copies), groups) for origin, copies in jobs]

    def _submit(self, dispatches: list) -> None:
        encoder = self.gpu.device.create_command_encoder()
        encode(encoder, dispatches)
        self.gpu.queue.submit([encoder.finish()])

    def _flat(self) -> list[Any]:
        return [part for layer in self.pool for part in layer]

    def _between(self, count: int) -> list[Any]:
        """Memory for so many blocks of each layer's K and V."""
        return [self.gpu.buffer(count * self._block_bytes, f"Copies of {count} blocks") for _ in self._flat()]

    def _taken(self, blocks: list[int]) -> list[Any]:
        kept = self._between(len(blocks))
        if blocks:
            self._submit(self._moves(list(zip(self._flat(), kept, strict=True)), blocks, [*range(len(blocks))]))
        return kept

    def _put(self, kept: list[Any], sources: list[int], blocks: list[int]) -> None:
        if blocks:
            self._submit(self._moves(list(zip(kept, self._flat(), strict=True)), sources, blocks))

    def copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        sources, destinations = check_pairs("copy_blocks", pairs, self.num_blocks, self.num_blocks)
        if sources:
            self._put(self._taken(sources), [*range(len(sources))], destinations)

    def swap_out(self, pairs: list[tuple[int, int]]) -> None:
        sources, destinations = check_pairs("swap_out", pairs, self.num_blocks, self._cpu_pool.shape[2])
        if not sources:
            return
        shape = (len(sources), *self._block_shape)
        for i, part in enumerate(self._taken(sources)):
            data = self.gpu.read(part, len(sources) * self._block_bytes)
            self._cpu_pool[i // 2, i % 2, destinations] = np.frombuffer(data, self.weights.dtype).reshape(shape)

    def swap_in(self, pairs: list[tuple[int, int]]) -> None:
        sources, destinations = check_pairs("swap_in", pairs, self._cpu_pool.shape[2], self.num_blocks)
        if sources:
            kept = [self.gpu.upload(part[sources], "swapped blocks") for layer in self._cpu_pool for part in layer]
            self._put(kept, [*range(len(sources))], destinations)

    def read_block(self, layer: int, block: int) -> tuple[np.ndarray, np.ndarray]:
        for name, index, most in (("layer", layer, len(self.pool)), ("block", block, self.num_blocks)):
            if not 0 <= whole(index, name) < most:
                raise PagedlabError(f"There is no {name} {index}; allowed are 0 to {most - 1}.")
        data = [self.gpu.read(part, self._block_bytes, block * self._block_bytes) for part in self.pool[layer]]
        key, value = (np.frombuffer(d, self.weights.dtype).reshape(self._block_shape).astype(np.float32) for d in data)
        return key, value

    def snapshot(self, blocks: list[int], cpu_blocks: list[int]) -> tuple:
        return list(blocks), self._taken(blocks), list(cpu_blocks), self._cpu_pool[:, :, cpu_blocks].copy()

    def restore(self, snapshot: tuple, clear: list[int]) -> None:
        blocks, kept, cpu_blocks, cpu_kept = snapshot
        self._put([self._zeros] * len(kept), [0] * len(clear), list(clear))
        self._put(kept, [*range(len(blocks))], blocks)
        self._cpu_pool[:, :, cpu_blocks] = cpu_kept

    # --------------------------------------------------------------------------------------------------------- steps

    def submit(self, batch: list[ScheduledRequest], sampling: SamplingMetadata) -> tuple:
        """One submission, or one for each TOKENS_AT_A_TIME tokens. What is read back is copied where it waits for
        :meth:`collect`."""
        numbers = self._numbers(batch)
        rows = sorted({draw.row for draw in sampling.draws} | set(sampling.logits))
        greedy = all(draw.temperature == 0 for draw in sampling.draws) and not sampling.logits
        ends = np.cumsum([part.end - part.start for part in batch]) - 1  # of each request: its last token
        program, b, c = self.program, self.program.buffers, self.model_config
        num_tokens, most = len(numbers["token_ids"]), program.most_tokens
        vector, back = 4 * c.hidden_size, None
        for first in range(0, num_tokens, most):
            count = min(most, num_tokens - first)
            for name in ("token_ids", "positions", "slots", "requests"):
                self.gpu.write(b[name], numbers[name][first : first + count])
            if first == 0:
                self.gpu.write(b["tables"], numbers["tables"])
            self.gpu.write(b["counts"], np.array([count, len(rows)], np.uint32))
            encoder = self.gpu.device.create_command_encoder()
            encode(encoder, program.layers(count))
            for place, row in enumerate(rows):
                at = int(ends[row]) - first
                if 0 <= at < count:
                    encoder.copy_buffer_to_buffer(b["hidden"], at * vector, b["last"], place * vector, vector)
            if rows and first + count == num_tokens:
                encode(encoder, program.scores(len(rows)))
                source, width = (b["chosen"], 4) if greedy else (b["logits"], 4 * c.vocab_size)
                back = self.gpu.readback(len(rows) * width)
                encoder.copy_buffer_to_buffer(source, 0, back, 0, len(rows) * width)
            self.gpu.queue.submit([encoder.finish()])
        return back, rows, greedy, sampling

    def collect(self, handle: tuple) -> SamplerOutput:
        back, rows, greedy, sampling = handle
        if back is None:
            return SamplerOutput([], [])
        data = self.gpu.look_into(back)
        place = {row: i for i, row in enumerate(rows)}
        chosen = [place[draw.row] for draw in sampling.draws]
        if greedy:
            ids = np.frombuffer(data, np.uint32)[: len(rows)].tolist()
            return SamplerOutput([ids[i] for i in chosen], [])
        logits = np.frombuffer(data, np.float32).reshape(len(rows), -1).copy()
        token_ids = sample(torch.from_numpy(logits[chosen]), sampling.draws) if chosen else []
        return SamplerOutput(token_ids, logits[[place[row] for row in sampling.logits]])

    def last_query(self, token_id: int, context: int, block_ids: list[int], layer: int) -> torch.Tensor:
        """query [query heads, head size] float32 of ``layer`` for the token at the end of a context of so many tokens.
        Nothing is written to the pool."""
        program, c = self.program, self.model_config
        table = np.array(block_ids, np.uint32)
        for name, data in (("token_ids", [token_id]), ("positions", [context - 1]), ("slots", [0xFFFFFFFF]),
                           ("requests", [0]), ("counts", [1, 0]), ("tables", table)):  # fmt: skip
            self.gpu.write(program.buffers[name], np.array(data, np.uint32))
        embeds, qkv = len(self.weights.embedding.pieces), len(self.weights.layers[layer]["qkv"].pieces)
        steps = program.layers(1)
        each = (len(steps) - embeds) // c.num_layers
        self._submit(steps[: embeds + layer * each + 1 + qkv + 1])  # to where queries and keys are turned
        shape = (c.num_query_heads, c.head_size)
        data = self.gpu.read(program.buffers["qkv"], 4 * int(np.prod(shape)))
        return torch.from_numpy(np.frombuffer(data, np.float32).reshape(shape).copy())

    def _numbers(self, batch: list[ScheduledRequest]) -> dict[str, np.ndarray]:
        """The batch as numbers: token ids, positions, slots and the request's row [tokens], block tables [requests,
        entries]. Raises PagedlabError for a slot or a block that is not there."""
        lengths = [part.end - part.start for part in batch]
        tables = np.zeros((len(batch), self._table_width), np.uint32)
        for row, part in enumerate(batch):
            ids = np.asarray(part.table.block_ids, np.int64)
            self._check("block", ids, self.num_blocks)
            tables[row, : len(ids)] = ids
        slots = np.concatenate([part.table.slot_mapping(part.start, part.end) for part in batch]).astype(np.int64)
        self._check("slot", slots, self.num_blocks * self.block_size)
        last_one_writes(slots)
        return {
            "token_ids": np.concatenate([part.token_ids[part.start : part.end] for part in batch]).astype(np.uint32),
            "positions": np.concatenate([np.arange(part.start, part.end) for part in batch]).astype(np.uint32),
            "slots": slots.astype(np.uint32),  # -1, a token that is not written, is 0xffffffff
            "requests": np.repeat(np.arange(len(batch)), lengths).astype(np.uint32),
            "tables": tables,
        }

    def _check(self, name: str, ids: np.ndarray, most: int) -> None:
        if len(ids) and not 0 <= ids.min() <= ids.max() < most:
            wrong = ids.min() if ids.min() < 0 else ids.max()
            raise PagedlabError(f"There is no {name} {wrong}; allowed are 0 to {most - 1}.")
