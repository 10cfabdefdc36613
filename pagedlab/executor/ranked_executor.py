"""One engine, one table, several ranks: each has some of the heads, of the weights and of every block."""

from __future__ import annotations

import dataclasses
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from pagedlab.errors import PagedlabError
from pagedlab.executor.abstract import SamplerOutput, SamplingMetadata, ScheduledRequest
from pagedlab.executor.group import Traffic
from pagedlab.executor.meeting import check_device
from pagedlab.executor.pool_size import PoolBudget
from pagedlab.executor.ranks import Ranks, ranks_for
from pagedlab.executor.sampling import sample
from pagedlab.executor.sent import sent
from pagedlab.executor.torch_executor import choose_device, choose_dtype
from pagedlab.model.split import check_size
from pagedlab.model.weights import source_of

if TYPE_CHECKING:
    from pagedlab.engine.config import EngineConfig


class RankedExecutor:
    """See :class:`pagedlab.executor.Executor`: tensor parallelism over ``tensor_parallel_size`` processes.

    The scheduler, the block table and the free queue exist once, in rank 0, which is the process that makes the engine.
    It starts the others, and sends them the numbers of each step; they compute it together (``pagedlab.model.split``).
    Under torchrun all are there already: rank 0 goes on with the script, the others serve and then exit.

    model, device ("cpu", "cuda"), dtype, seed: as of ``TorchExecutor``. Raises PagedlabError for a number of ranks over
    which the model cannot be split, and, from any method, once a rank is gone: that ends the run.

    Source: vLLM ``v1/executor/multiproc_executor.py``.
    """

    sampler = staticmethod(sample)
    can_be_batch_invariant = True

    def __init__(
        self, model: str = "smollm2", *, device: Any = None, dtype: Any = None, seed: int = 0, tensor_parallel_size: int
    ) -> None:
        device = check_device(choose_device(None) if device is None else str(device), tensor_parallel_size)

        def check() -> None:
            check_size(source_of(model)[1], tensor_parallel_size)
            if dtype is not None:
                choose_dtype(dtype, device)

        ranks = ranks_for(tensor_parallel_size, device, check)
        self._join(ranks, "make", model, dtype, seed)

    def _join(self, ranks: Ranks, *how: Any) -> None:
        self._ranks, self._number = ranks, next(ranks.numbers)
        self._names = iter(range(1 << 62))
        self._is_closed = False
        ranks.users.add(self._number)
        weakref.finalize(self, _forget, ranks, self._number).atexit = False
        try:
            ranks.do(self._number, *how)
        except BaseException:  # a notebook keeps the error, and with it this executor
            _leave(ranks, self._number)
            raise
        own = ranks.rank.executors[self._number]
        self.tokenizer, self.model_config = own.tokenizer, own.model_config

    def share(self) -> RankedExecutor:
        twin = object.__new__(RankedExecutor)
        twin._join(self._ranks, "share", self._number)
        return twin

    def close(self) -> None:
        """The last engine on these weights ends the other processes, where this one started them."""
        if self._is_closed or os.getpid() != self._ranks.pid:
            return
        self._is_closed = True
        try:
            if not (self._ranks.is_over or self._ranks.others.lost.done()):
                self._ranks.do(self._number, "close")
        finally:  # also after Ctrl-C
            _leave(self._ranks, self._number)

    def _all(self, what: str, *args: Any) -> list[Any]:
        self._check()
        return self._ranks.do(self._number, what, *args)

    def _check(self) -> None:
        self._ranks.check()
        if self._is_closed:
            raise PagedlabError("This engine was closed: it has no memory any more. Make another one.")

    @property
    def _own(self) -> Any:
        """Rank 0's part."""
        return self._ranks.rank.executors[self._number]

    # ---------------------------------------------------------------------------------------------- what ranks have

    @property
    def tensor_parallel_size(self) -> int:
        return self._ranks.size

    @property
    def pids(self) -> list[int]:
        """Process ids by rank."""
        return list(self._ranks.pids)

    @property
    def weight_bytes(self) -> list[int]:
        """Of each rank's tensors."""
        return self._all("weight_bytes")

    @property
    def pool_bytes(self) -> list[int]:
        """Of each rank's pool: its heads' part of every block."""
        return self._all("pool_bytes")

    def traffic(self) -> list[dict[str, Traffic]]:
        """Of each rank, by kind of collective, what was sent since this was last called."""
        return self._all("take_traffic")

    @property
    def model(self) -> Any:
        """Rank 0's part, for lessons."""
        return self._own.model

    @property
    def kv_pool(self) -> Any:
        """Rank 0's part, for lessons."""
        return self._own.kv_pool

    @property
    def swap_space(self) -> Any:
        return self._own.swap_space

    @property
    def runner(self) -> Any:
        return self._own.runner

    def describe(self) -> dict[str, Any]:
        return self._own.describe()

    # ------------------------------------------------------------------------------------------------------- memory

    def plan(self, config: EngineConfig) -> PoolBudget:
        """One rank's: the blocks are as many as the rank with the least memory has."""
        budgets = self._all("plan", config)
        least = {name: min(getattr(b, name) for b in budgets) for name in ("num_blocks", "num_cpu_blocks")}
        return dataclasses.replace(budgets[0], **least)

    def initialize(self, config: EngineConfig, budget: PoolBudget) -> None:
        self._all("initialize", config, budget)

    def copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        self._all("copy_blocks", pairs)

    def swap_out(self, pairs: list[tuple[int, int]]) -> None:
        self._all("swap_out", pairs)

    def swap_in(self, pairs: list[tuple[int, int]]) -> None:
        self._all("swap_in", pairs)

    def read_block(self, layer: int, block: int) -> tuple[Any, Any]:
        return self._all("read_block", layer, block)[0]

    def last_query(self, token_id: int, context: int, tables: list[list[int]], layer: int) -> Any:
        return self._all("last_query", token_id, context, tables, layer)[0]

    def snapshot(self, blocks: list[int], cpu_blocks: list[int]) -> Kept:
        kept = Kept(self, next(self._names))
        self._all("keep", kept.name, blocks, cpu_blocks)
        return kept

    def restore(self, snapshot: Kept, clear: list[int]) -> None:
        self._all("put_back", snapshot.name, clear)

    # -------------------------------------------------------------------------------------------------------- steps

    def submit(self, batch: list[ScheduledRequest], sampling: SamplingMetadata) -> Any:
        self._check()
        rows = [draw.row for draw in sampling.draws] + list(sampling.logits)
        if wrong := [row for row in rows if not 0 <= row < len(batch)]:
            raise PagedlabError(f"There is no row {wrong[0]}; the batch has {len(batch)} requests.")
        batch, sampling = [sent(part) for part in batch], copy_of(sampling)
        return self._ranks.start(self._number, "submit", batch, sampling)

    def collect(self, handle: Any) -> SamplerOutput:
        self._check()
        return self._ranks.run(self._own.collect, handle)


class Kept:
    """A snapshot, which each rank has its part of, until nobody has this any more."""

    def __init__(self, executor: RankedExecutor, name: int) -> None:
        self.name = name
        weakref.finalize(self, executor._ranks.forgotten.append, (executor._number, name)).atexit = False


def copy_of(sampling: SamplingMetadata) -> SamplingMetadata:
    return SamplingMetadata(list(sampling.draws), list(sampling.logits))


def _leave(ranks: Ranks, number: int) -> None:
    ranks.users.discard(number)
    if not ranks.users and ranks.is_own:
        ranks.end()


def _forget(ranks: Ranks, number: int) -> None:
    """Of an executor that nobody has any more. This may be called in any thread, and in the middle of anything. Python
    waits for the thread before it ends: often the last engine goes with the last function."""
    ranks.forgotten.append((number,))
    threading.Thread(target=_leave, args=(ranks, number)).start()
