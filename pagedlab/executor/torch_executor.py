"""The model in torch: on a CPU, on a CUDA GPU, or on Apple's (MPS)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pagedlab.attention import KVPool, choose_backend, paged_attention
from pagedlab.errors import PagedlabError, whole
from pagedlab.executor.abstract import SamplerOutput, SamplingMetadata, ScheduledRequest, model_shape
from pagedlab.executor.fetch import fetch, rows_of
from pagedlab.executor.host_memory import keep_freed_memory
from pagedlab.executor.pool_size import MemoryInUse, PoolBudget, activation_peak, most_tokens, plan_pool
from pagedlab.executor.runner import DrawnTokens, ModelRunner
from pagedlab.executor.sampling import sample
from pagedlab.executor.swap_space import SwapSpace
from pagedlab.model.llama import LlamaModel, in_parts
from pagedlab.model.split import ALONE, Group
from pagedlab.model.tiles import tiles_for
from pagedlab.model.weights import checked_device, load_model
from pagedlab.trace.recorder import source_of

if TYPE_CHECKING:
    from pagedlab.engine.config import EngineConfig

Fetched = Callable[[], np.ndarray]
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class TorchExecutor:
    """See :class:`pagedlab.executor.Executor`.

    model: a name, as of ``pagedlab.model.weights.load_model``. device: None takes CUDA where there is one. dtype: None
    is float32 on a CPU and on MPS; on a CUDA GPU bfloat16 where it has that, else float16. seed: of random weights.
    group: of the ranks that hold the model together; weights and pool are then this rank's part.

    ``kv_pool``, ``swap_space`` and ``runner`` are there once it is initialized. ``device="mps"`` takes the same way as
    CUDA without Triton; nobody has tried it on such a machine yet.
    """

    sampler = staticmethod(sample)
    can_be_batch_invariant = True

    def __init__(
        self,
        model: str = "smollm2",
        *,
        device: Any = None,
        dtype: torch.dtype | str | None = None,
        seed: int = 0,
        group: Group = ALONE,
    ) -> None:
        device = choose_device(device)
        dtype = choose_dtype(dtype, device)
        self.model, self.tokenizer = load_model(model, device=device, dtype=dtype, seed=seed, group=group)
        if self.model.device.type == "cpu":
            keep_freed_memory()
        self.model_config = self.model.whole
        self.attention: Callable[..., torch.Tensor] | None = None
        self.close()

    def share(self) -> TorchExecutor:
        twin = copy.copy(self)
        twin.attention = None
        twin.close()
        return twin

    def close(self) -> None:
        self.kv_pool: KVPool | None = None
        self.swap_space: SwapSpace | None = None
        self.runner: ModelRunner | None = None
        self._batch_invariant = False
        self._drawn = DrawnTokens()

    def describe(self) -> dict[str, Any]:
        device, dtype, c = self.model.device, self.model.dtype, self.model_config
        try:  # without importing it: whether kernels are interpreted is decided at that moment
            triton_version = version("triton")
        except PackageNotFoundError:  # Triton exists on Linux only
            triton_version = None
        capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else None
        shortened = dtype == torch.float32 and capability and torch.get_float32_matmul_precision() != "highest"
        return {
            "torch": torch.__version__,
            "triton": triton_version,
            "device": torch.cuda.get_device_name(device) if capability else device.type.upper(),
            "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
            "attention_backend": source_of(self.attention) if self.attention else self._backend(),
            "dtype": str(dtype).removeprefix("torch."),
            "precision": "tf32" if shortened else str(dtype).removeprefix("torch."),
            "model": c.name,
            "model_shape": model_shape(c) | {"bytes_per_element": dtype.itemsize},
        }

    def _backend(self) -> str:
        return choose_backend(None, self.model.device, self._batch_invariant)

    # -------------------------------------------------------------------------------------------------------- memory

    def plan(self, config: EngineConfig) -> PoolBudget:
        element = self.model.dtype.itemsize
        if self.model.device.type == "cuda":
            used = measured_on_cuda(self.model, config)
        else:
            activations = activation_peak(self.model.config, element, config)
            used = MemoryInUse(config.device_memory, self.model.num_bytes, activations, 0, measured=False)
        return plan_pool(self.model.config, element, used, config)

    def initialize(self, config: EngineConfig, budget: PoolBudget) -> None:
        if self.runner is not None:
            raise PagedlabError("This executor serves an engine already; give the second one executor.share().")
        c, model = self.model.config, self.model
        each_token = tiles_for(model) if config.batch_invariant else in_parts
        sizes = (c.num_layers_of_a_block, budget.num_blocks, config.block_size, c.num_kv_heads, c.head_size)
        try:
            self.kv_pool = KVPool(*sizes, model.dtype, model.device)
        except MemoryError:  # of the CPU; torch.OutOfMemoryError says for itself what a GPU has
            raise PagedlabError(
                f"This machine has no memory for a pool of {budget.num_blocks} blocks of {config.block_size} tokens. "
                "Lower num_gpu_blocks_override, block_size, or device_memory."
            ) from None
        self.swap_space = SwapSpace(self.kv_pool, budget.num_cpu_blocks)
        self._batch_invariant = config.batch_invariant
        self.runner = ModelRunner(
            model,
            self.kv_pool,
            self.attention,
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            max_model_len=config.max_model_len,
            backend=None if self.attention else self._backend(),
            each_token=each_token,
        )

    def copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        self.kv_pool.copy_blocks(pairs)

    def swap_out(self, pairs: list[tuple[int, int]]) -> None:
        self.swap_space.swap_out(pairs)

    def swap_in(self, pairs: list[tuple[int, int]]) -> None:
        self.swap_space.swap_in(pairs)

    def read_block(self, layer: int, block: int) -> tuple[np.ndarray, np.ndarray]:
        for name, index, most in (
            ("layer", layer, self.model_config.num_layers),
            ("block", block, self.kv_pool.num_blocks),
        ):
            if not 0 <= whole(index, name) < most:
                raise PagedlabError(f"There is no {name} {index}; allowed are 0 to {most - 1}.")
        kv = self.kv_pool.layer(self.runner.places[layer][1])
        key, value = (x[block].float().cpu().numpy().copy() for x in (kv.key, kv.value))
        return key, value

    def snapshot(self, blocks: list[int], cpu_blocks: list[int]) -> list[tuple[torch.Tensor, list[int], torch.Tensor]]:
        pools = ((self.kv_pool.data, blocks), (self.swap_space.data, cpu_blocks))
        return [(data, ids, data[:, :, ids].clone()) for data, ids in pools]

    def restore(self, snapshot: list[tuple[torch.Tensor, list[int], torch.Tensor]], clear: list[int]) -> None:
        self.kv_pool.data[:, :, clear] = 0
        for data, ids, kept in snapshot:
            data[:, :, ids] = kept

    # --------------------------------------------------------------------------------------------------------- steps

    @torch.inference_mode()
    def submit(self, batch: list[ScheduledRequest], sampling: SamplingMetadata) -> tuple[Fetched, Fetched]:
        """On a GPU this only starts it: whoever wants to know the tokens waits."""
        logits = self.runner.run(batch, self._drawn)
        rows = [draw.row for draw in sampling.draws]
        token_ids = self.sampler(rows_of(logits, rows), sampling.draws)
        self._drawn = DrawnTokens({batch[row].request_id: place for place, row in enumerate(rows)}, token_ids)
        return fetch(token_ids), fetch(rows_of(logits, sampling.logits))

    def collect(self, handle: tuple[Fetched, Fetched]) -> SamplerOutput:
        token_ids, logits = (wait() for wait in handle)
        return SamplerOutput(token_ids.tolist(), logits if len(logits) else [])

    @torch.inference_mode()
    def last_query(self, token_id: int, context: int, tables: list[list[int]], layer: int) -> torch.Tensor:
        """query [query heads, head size] of ``layer`` for the token at the end of a context of so many tokens.
        ``tables``: block ids, for each group of layers.

        It goes through the model once more and reads the K and V that are in the pool, its own among them; nothing is
        written, so a run is not disturbed.
        """
        numbers = {"dtype": torch.int32, "device": self.model.device}
        lengths, starts = torch.tensor([context], **numbers), torch.tensor([0, 1], **numbers)
        queries: dict[int, torch.Tensor] = {}

        def attend(i: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            queries[i] = query[0].clone()
            group, place = self.runner.places[i]
            places = (torch.tensor([tables[group]], **numbers), lengths, starts)
            window = self.model_config.layer_groups[group].window
            return paged_attention(query, self.kv_pool.layer(place), *places, sliding_window=window, backend="torch")

        token, position = (torch.tensor([n], device=self.model.device) for n in (token_id, context - 1))
        self.model(token, position, attend)
        return queries[layer]


def measured_on_cuda(model: LlamaModel, config: EngineConfig) -> MemoryInUse:
    """After one real forward pass of the largest step. ``other``: what other programs and the driver hold."""
    device = model.device
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    tokens = most_tokens(config)
    with torch.inference_mode():
        ids = torch.zeros(tokens, dtype=torch.int64, device=device)
        positions = torch.arange(tokens, device=device) % config.max_model_len
        # Attention itself needs no memory that grows with the context; the query stands in for its output.
        hidden = model(ids, positions, lambda layer, query, key, value: query.clone())
        model.logits(hidden[: config.max_num_seqs]).softmax(-1)
    torch.cuda.synchronize(device)
    activations = torch.cuda.max_memory_allocated(device) - before
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    other = max(0, total - free - torch.cuda.memory_allocated(device))
    return MemoryInUse(total, model.num_bytes, activations, other, measured=True)


def gpu_memory() -> int:
    """Bytes of the first CUDA GPU, as its driver reports them; 0 where there is none."""
    return torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else 0


def choose_device(device: Any) -> str:
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    return str(checked_device(device))


def choose_dtype(dtype: torch.dtype | str | None, device: str) -> torch.dtype:
    if dtype is None:
        if not device.startswith("cuda"):
            return torch.float32
        return torch.bfloat16 if torch.cuda.get_device_capability(device) >= (8, 0) else torch.float16
    chosen = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if chosen not in DTYPES.values():
        raise PagedlabError(f"dtype is {dtype!r}; allowed are {', '.join(DTYPES)}.")
    return chosen
