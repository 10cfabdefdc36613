"""What the engine asks of a device, and nothing else: plain numbers go in, token ids come out, and a tensor never
crosses.

Source: vLLM ``v1/executor/abstract.py``, and ``v1/worker/gpu_model_runner.py`` for what a batch is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pagedlab.errors import PagedlabError
from pagedlab.executor.pool_size import PoolBudget
from pagedlab.kv.block_table import BlockTable, GroupedBlockTable, tables_of
from pagedlab.model.config import LlamaConfig

if TYPE_CHECKING:
    from pagedlab.engine.config import EngineConfig

Drawn = TypeVar("Drawn")  # what an executor has of a token that it chose: the number, or where it lies


@dataclass
class ScheduledRequest:
    """A request's part of a step: tokens ``start`` to ``end`` (exclusive) of ``token_ids`` go through the model.

    Where ``end`` lies one behind the last of ``token_ids``, that token is still being sampled: it is what was drawn for
    this request in the batch before, and only the executor has it.
    """

    request_id: str
    token_ids: list[int]
    start: int
    end: int
    table: BlockTable | GroupedBlockTable

    @property
    def tables(self) -> tuple[BlockTable, ...]:
        """Of each group of the model's layers."""
        return tables_of(self.table)

    @property
    def is_awaited(self) -> bool:
        """Is its last token one that is still being sampled?"""
        return self.end > len(self.token_ids)

    def drawn_in(self, last: Mapping[str, Drawn]) -> Drawn:
        """Its awaited token, of those that were drawn in the batch before. PagedlabError where it is not among
        them."""
        if self.request_id not in last or self.end > len(self.token_ids) + 1:
            raise PagedlabError(
                f"Request {self.request_id!r} is to compute {self.end} tokens, {len(self.token_ids)} are known, and "
                f"the batch before drew {int(self.request_id in last)} for it."
            )
        return last[self.request_id]


@dataclass(frozen=True)
class Draw:
    """A token to choose, for ``position``, from the logits after the last scheduled token of ``batch[row]``.

    ``temperature`` 0 is greedy, ``top_k`` 0 and ``top_p`` 1 switch these off. Several draws may be from one row: that
    is how the answers that fork from one prompt each get a token of their own.
    """

    row: int
    position: int
    seed: int
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0

    @property
    def generator_seed(self) -> int:
        """Of a random generator that is used for this draw and for nothing else."""
        return hashed(f"{self.seed}:{self.position}")


@dataclass
class SamplingMetadata:
    """What is wanted after a batch. ``logits``: the rows of the batch whose logits themselves are asked for."""

    draws: list[Draw] = field(default_factory=list)
    logits: list[int] = field(default_factory=list)


@dataclass
class SamplerOutput:
    """``token_ids``: one for each draw, in their order. ``logits``: float32 [rows asked for, vocabulary], as a numpy
    array or as lists."""

    token_ids: list[int]
    logits: Sequence[Sequence[float]]


def model_shape(model: LlamaConfig) -> dict[str, int]:
    """What :meth:`Executor.describe` says of the model's sizes; ``bytes_per_element`` is the executor's."""
    names = ["num_layers", "num_query_heads", "num_kv_heads", "head_size"]
    if model.has_groups:
        names.append("num_layers_of_a_block")
    return {name: getattr(model, name) for name in names}


def hashed(text: str) -> int:
    """63 bits that follow from ``text`` alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


class Executor(Protocol):
    """A model with its weights, and memory for K and V, on some device.

    A new executor knows its model; :meth:`initialize` gives it memory, once. From then on it does what it is asked *as
    if* in that order, but when it likes: only :meth:`collect`, :meth:`read_block` and :meth:`snapshot` wait. So what
    :meth:`submit` is given may change as soon as it returns, and several batches may be under way at once.

    An executor whose attention can be replaced has an attribute ``attention``, which is called like
    ``pagedlab.attention.paged_attention`` (None: its own). One that can tell what attention last asked for has
    ``last_query``, see ``pagedlab.engine.last_query``. One over several processes has ``tensor_parallel_size``. One
    that keeps ``batch_invariant=True`` has ``can_be_batch_invariant``, and it is True.
    """

    model_config: LlamaConfig
    tokenizer: Any  # pagedlab.model.tokenizer.Tokenizer, or what does the same
    sampler: Callable[..., Any]  # what chooses the tokens: events name it

    def share(self) -> Executor:
        """Another executor on the same weights, with no memory yet and no attention but its own."""

    def plan(self, config: EngineConfig) -> PoolBudget:
        """How many blocks there will be under these knobs, of which ``max_model_len`` is given. Raises PagedlabError
        where there is no room for a pool."""

    def initialize(self, config: EngineConfig, budget: PoolBudget) -> None:
        """Make the memory that was planned, all zero. Raises PagedlabError where this device has not as much, and
        where memory was made before."""

    def describe(self) -> dict[str, Any]:
        """For the header of a trace: device, compute_capability, attention_backend, dtype (of weights, K and V),
        precision (of products of matrices), model, model_shape, torch, triton; and driver, where it has one to name.
        Text, or None where there is none."""

    def submit(self, batch: list[ScheduledRequest], sampling: SamplingMetadata) -> Any:
        """Write K and V of the batch's tokens into their slots, choose what is wanted. Returns a handle for
        :meth:`collect`. Raises PagedlabError for a slot or a block that is not there, and for a token that is neither
        known nor drawn in the batch before."""

    def collect(self, handle: Any) -> SamplerOutput:
        """Wait for a batch that was submitted. Each handle is good for one call; their order is free."""

    def copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        """Copy whole blocks, (source, destination): all sources are read before any destination is written."""

    def swap_out(self, pairs: list[tuple[int, int]]) -> None:
        """Copy whole blocks to the CPU pool: (block, CPU block)."""

    def swap_in(self, pairs: list[tuple[int, int]]) -> None:
        """Copy whole blocks back: (CPU block, block)."""

    def read_block(self, layer: int, block: int) -> tuple[Any, Any]:
        """(key, value) that lie in a block now: float32 [block size, KV heads, head size] each, numpy or lists. Raises
        PagedlabError for a layer or a block that is not there."""

    def snapshot(self, blocks: list[int], cpu_blocks: list[int]) -> Any:
        """A copy of what lies in these blocks, for :meth:`restore`."""

    def restore(self, snapshot: Any, clear: list[int]) -> None:
        """Put the blocks of a snapshot back, as often as one likes; make those in ``clear`` zero, as they were."""

    def close(self) -> None:
        """Give the memory back. Nothing can be asked any more."""
