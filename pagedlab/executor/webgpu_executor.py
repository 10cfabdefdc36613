"""The model on any GPU with WebGPU (Metal, Direct3D 12, Vulkan): weights, K and V lie in its buffers, a step is one
submission, and what comes back are the tokens that were chosen."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pagedlab.errors import PagedlabError
from pagedlab.executor.abstract import SamplerOutput, SamplingMetadata, ScheduledRequest, model_shape
from pagedlab.executor.pool_size import MemoryInUse, PoolBudget, activation_peak, most_tokens, plan_pool
from pagedlab.executor.runner import last_one_writes
from pagedlab.executor.sampling import sample
from pagedlab.executor.webgpu_model import Program, WebGPUModel
from pagedlab.executor.webgpu_pool import Snapshot, WebGPUPool
from pagedlab.kernels.wgsl.gpu import encode, open_gpu
from pagedlab.model.weights import load_model

if TYPE_CHECKING:
    from pagedlab.engine.config import EngineConfig

TOKENS_AT_A_TIME = 512  # of a long prompt: more need larger buffers, and are not quicker
DTYPES = ("float32", "float16")


@dataclass
class Submitted:
    """A batch that was submitted. ``back``: the buffer that is read back (None: nothing is). ``rows``: of the batch,
    those that are in it. ``greedy``: it holds token ids, else logits. ``places``: by request, which of the draws is its
    last. ``output``: once somebody has waited for it."""

    back: Any
    rows: list[int]
    greedy: bool
    sampling: SamplingMetadata
    places: dict[str, int]
    output: SamplerOutput | None = None

    def place(self, draw: int) -> int:
        """Where in what is read back."""
        return self.rows.index(self.sampling.draws[draw].row)


class WebGPUExecutor:
    """See :class:`pagedlab.executor.Executor`.

    device: "webgpu" is this machine's first adapter, "webgpu:1" the second. model: a name, as of
    ``pagedlab.model.weights.load_model``. dtype: "float16" or "float32"; None is float16 where the adapter has it.
    seed: of random weights.
    """

    sampler = staticmethod(sample)

    def __init__(self, model: str = "smollm2", *, device: Any = None, dtype: Any = None, seed: int = 0) -> None:
        self.gpu = open_gpu(_adapter(device))
        name = str(dtype or ("float16" if self.gpu.has_f16 else "float32")).removeprefix("torch.")
        if name not in DTYPES or (name == "float16" and not self.gpu.has_f16):
            known = " and ".join(DTYPES if self.gpu.has_f16 else DTYPES[:1])
            raise PagedlabError(f"dtype is {dtype!r}; {self.gpu.name} has {known}.")
        weights, self.tokenizer = load_model(model, device="cpu", dtype=torch.float32, seed=seed)
        self.model_config = weights.config
        if weights.config.has_groups:
            raise PagedlabError(
                f"{weights.config.name} has layers with a sliding window, which the kernels in WGSL do not have: "
                'take device="cpu" or "cuda".'
            )
        self.model = WebGPUModel(self.gpu, weights, getattr(torch, name))
        self.close()

    def share(self) -> WebGPUExecutor:
        twin = copy.copy(self)
        twin.close()
        return twin

    def close(self) -> None:
        self.kv_pool: WebGPUPool | None = None
        self.program: Program | None = None
        self._last = Submitted(None, [], True, SamplingMetadata(), {})

    def describe(self) -> dict[str, Any]:
        c = self.model_config
        return {
            "torch": torch.__version__,
            "triton": None,
            "device": self.gpu.name,
            "compute_capability": None,
            "attention_backend": "webgpu",
            "driver": self.gpu.driver,
            "dtype": self.model.number,
            "precision": "float32",
            "model": c.name,
            "model_shape": model_shape(c) | {"bytes_per_element": self.model.dtype.itemsize},
        }

    # -------------------------------------------------------------------------------------------------------- memory

    def plan(self, config: EngineConfig) -> PoolBudget:
        """WebGPU does not tell how much memory there is: ``device_memory`` is a stated amount, as on a CPU."""
        activations = activation_peak(self.model_config, 4, config)
        used = MemoryInUse(config.device_memory, self.model.num_bytes, activations, 0, measured=False)
        return plan_pool(self.model_config, self.model.dtype.itemsize, used, config)

    def initialize(self, config: EngineConfig, budget: PoolBudget) -> None:
        if self.program is not None:
            raise PagedlabError("This executor serves an engine already; give the second one executor.share().")
        c = self.model_config
        shape = (config.block_size, c.num_kv_heads, c.head_size)
        self.kv_pool = WebGPUPool(
            self.gpu, c.num_layers, budget.num_blocks, shape, self.model.number, budget.num_cpu_blocks
        )
        self._table_width = -(-config.max_model_len // config.block_size) + 1
        self.program = Program(
            self.model, self.kv_pool.buffers, block_size=config.block_size, table_width=self._table_width,
            most_tokens=min(most_tokens(config), TOKENS_AT_A_TIME), most_rows=config.max_num_seqs,
        )  # fmt: skip

    def copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        self.kv_pool.copy_blocks(pairs)

    def swap_out(self, pairs: list[tuple[int, int]]) -> None:
        self.kv_pool.swap_out(pairs)

    def swap_in(self, pairs: list[tuple[int, int]]) -> None:
        self.kv_pool.swap_in(pairs)

    def read_block(self, layer: int, block: int) -> tuple[np.ndarray, np.ndarray]:
        return self.kv_pool.read_block(layer, block)

    def snapshot(self, blocks: list[int], cpu_blocks: list[int]) -> Snapshot:
        return self.kv_pool.snapshot(blocks, cpu_blocks)

    def restore(self, snapshot: Snapshot, clear: list[int]) -> None:
        self.kv_pool.restore(snapshot, clear)

    # --------------------------------------------------------------------------------------------------------- steps

    def submit(self, batch: list[ScheduledRequest], sampling: SamplingMetadata) -> Submitted:
        """One submission, or one for each TOKENS_AT_A_TIME tokens. What is read back is copied where it waits for
        :meth:`collect`. Awaited tokens are copied on the GPU, where it chose them itself; a random draw is the host's,
        and is waited for here."""
        last = self._last
        awaited = {row: part.drawn_in(last.places) for row, part in enumerate(batch) if part.is_awaited}
        numbers = self._numbers(batch)
        rows = sorted({draw.row for draw in sampling.draws} | set(sampling.logits))
        greedy = all(draw.temperature == 0 for draw in sampling.draws) and not sampling.logits
        ends = np.cumsum([part.end - part.start for part in batch]) - 1  # of each request: its last token
        if awaited and not last.greedy:
            token_ids = self.collect(last).token_ids
            for row, draw in awaited.items():
                numbers["token_ids"][ends[row]] = token_ids[draw]
        program, b, c = self.program, self.program.buffers, self.model_config
        num_tokens, most = len(numbers["token_ids"]), program.most_tokens
        vector, back = 4 * c.hidden_size, None
        for first in range(0, num_tokens, most):
            count = min(most, num_tokens - first)
            self._write(numbers, first, count, len(rows))
            with self.gpu.submission() as encoder:
                for row, draw in awaited.items() if last.greedy else ():
                    if 0 <= (at := int(ends[row]) - first) < count:
                        encoder.copy_buffer_to_buffer(b["chosen"], 4 * last.place(draw), b["token_ids"], 4 * at, 4)
                encode(encoder, program.layers_of(count))
                for place, row in enumerate(rows):
                    at = int(ends[row]) - first
                    if 0 <= at < count:
                        encoder.copy_buffer_to_buffer(b["hidden"], at * vector, b["last"], place * vector, vector)
                if rows and first + count == num_tokens:
                    encode(encoder, program.scores_of(len(rows)))
                    source, width = (b["chosen"], 4) if greedy else (b["logits"], 4 * c.vocab_size)
                    back = self.gpu.readback(len(rows) * width)
                    encoder.copy_buffer_to_buffer(source, 0, back, 0, len(rows) * width)
        places = {batch[draw.row].request_id: i for i, draw in enumerate(sampling.draws)}
        self._last = Submitted(back, rows, greedy, sampling, places)
        return self._last

    def collect(self, handle: Submitted) -> SamplerOutput:
        """What came back; the GPU is waited for once."""
        if handle.output is None:
            handle.output = self._look(handle)
        return handle.output

    def _look(self, submitted: Submitted) -> SamplerOutput:
        rows, draws = submitted.rows, submitted.sampling.draws
        if submitted.back is None:
            return SamplerOutput([], [])
        data = self.gpu.look_into(submitted.back)
        chosen = [submitted.place(i) for i in range(len(draws))]
        if submitted.greedy:
            ids = np.frombuffer(data, np.uint32)[: len(rows)].tolist()
            return SamplerOutput([ids[i] for i in chosen], [])
        logits = np.frombuffer(data, np.float32).reshape(len(rows), -1).copy()
        token_ids = sample(torch.from_numpy(logits[chosen]), draws).tolist()
        return SamplerOutput(token_ids, logits[[rows.index(row) for row in submitted.sampling.logits]])

    def last_query(self, token_id: int, context: int, tables: list[list[int]], layer: int) -> torch.Tensor:
        """query [query heads, head size] of ``layer`` for the token at the end of a context of so many tokens; computed
        in float32, and given in the dtype of K and V, which lessons compare it with.

        It goes through the model once more and reads the K and V that are in the pool, its own among them; nothing is
        written there, so a run is not disturbed.
        """
        table = np.zeros((1, self._table_width), np.uint32)
        table[0, : len(tables[0])] = tables[0]
        one = {"token_ids": token_id, "positions": context - 1, "slots": 0, "requests": 0}
        numbers = {name: np.array([number], np.uint32) for name, number in one.items()} | {"tables": table}
        self._write(numbers, 0, 1, 0)
        with self.gpu.submission() as encoder:
            encode(encoder, self.program.query_of(layer))
        data = self.gpu.read(self.program.buffers["qkv"], 4 * self.program.attended)
        query = torch.frombuffer(bytearray(data), dtype=torch.float32).to(self.model.dtype)
        return query.view(-1, self.model_config.head_size)

    def _write(self, numbers: dict[str, np.ndarray], first: int, count: int, rows: int) -> None:
        """To the GPU: what the kernels read of ``count`` tokens from the ``first`` one on; ``rows``: wanted of them."""
        buffers = self.program.buffers
        for name in ("token_ids", "positions", "slots", "requests"):
            self.gpu.write(buffers[name], numbers[name][first : first + count])
        if first == 0:
            self.gpu.write(buffers["tables"], numbers["tables"])
        self.gpu.write(buffers["counts"], np.array([count, rows], np.uint32))

    def _numbers(self, batch: list[ScheduledRequest]) -> dict[str, np.ndarray]:
        """The batch as numbers: token ids, positions, slots and the request's row [tokens], block tables [requests,
        entries]. Raises PagedlabError for a slot or a block that is not there."""
        lengths = [part.end - part.start for part in batch]
        tables = np.zeros((len(batch), self._table_width), np.uint32)
        for row, part in enumerate(batch):
            ids = np.asarray(part.table.block_ids, np.int64)
            self._check("block", ids, self.kv_pool.num_blocks)
            tables[row, : len(ids)] = ids
        slots = np.concatenate([part.table.slot_mapping(part.start, part.end) for part in batch]).astype(np.int64)
        self._check("slot", slots, self.kv_pool.num_blocks * self.kv_pool.block_size)
        last_one_writes(slots)
        return {
            "token_ids": np.concatenate(
                [part.token_ids[part.start : part.end] + [0] * part.is_awaited for part in batch]
            ).astype(np.uint32),
            "positions": np.concatenate([np.arange(part.start, part.end) for part in batch]).astype(np.uint32),
            "slots": slots.astype(np.uint32),  # -1, a token that is not written, is 0xffffffff
            "requests": np.repeat(np.arange(len(batch)), lengths).astype(np.uint32),
            "tables": tables,
        }

    def _check(self, name: str, ids: np.ndarray, most: int) -> None:
        if len(ids) and not 0 <= ids.min() <= ids.max() < most:
            wrong = ids.min() if ids.min() < 0 else ids.max()
            raise PagedlabError(f"There is no {name} {wrong}; allowed are 0 to {most - 1}.")


def _adapter(device: Any) -> int:
    """The number in "webgpu:1"; 0 where there is none."""
    number = str(device or "").partition(":")[2] or "0"
    if not (number.isascii() and number.isdigit()):
        raise PagedlabError(f"device is {device!r}; behind webgpu: stands the number of an adapter (pagedlab doctor).")
    return int(number)
