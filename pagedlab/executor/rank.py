"""What each rank does, rank 0 among them: its part of the model, and its heads' part of every block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pagedlab.executor.abstract import SamplingMetadata, ScheduledRequest
from pagedlab.executor.group import Group, Traffic
from pagedlab.executor.pool_size import PoolBudget
from pagedlab.executor.torch_executor import TorchExecutor

if TYPE_CHECKING:
    from pagedlab.engine.config import EngineConfig


class RankExecutor(TorchExecutor):
    """A :class:`TorchExecutor` that holds a part of the model, and does with the others what it cannot do alone. Each
    rank samples by itself: it has all logits, and a draw follows from the request."""

    def __init__(self, group: Group, model: str, device: str, dtype: Any, seed: int) -> None:
        super().__init__(model, device=device, dtype=dtype, seed=seed, group=group)
        self.group = group
        self._kept: dict[int, Any] = {}

    def share(self) -> RankExecutor:
        twin = super().share()
        twin._kept = {}
        return twin

    def close(self) -> None:
        super().close()
        self._kept = {}

    def initialize(self, config: EngineConfig, budget: PoolBudget) -> None:
        self.group.in_order = config.batch_invariant
        super().initialize(config, budget)

    def submit(self, batch: list[ScheduledRequest], sampling: SamplingMetadata, ready: Any = None) -> Any:
        self.group.in_order = self._batch_invariant
        return super().submit(batch, sampling, ready)

    def read_block(self, layer: int, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Of all ranks' KV heads, each once."""
        parts = (torch.from_numpy(part).to(self.model.device) for part in super().read_block(layer, block))
        size, whole = self.group.split.size, self.model_config
        copies = max(1, size // whole.num_kv_heads)
        key, value = (torch.cat(self.group.gathered(part)[::copies], dim=1).cpu().numpy() for part in parts)
        return key, value

    @torch.inference_mode()
    def last_query(self, token_id: int, context: int, tables: list[list[int]], layer: int) -> torch.Tensor:
        query = super().last_query(token_id, context, tables, layer)
        return torch.cat(self.group.gathered(query.contiguous()))

    def keep(self, name: int, blocks: list[int], cpu_blocks: list[int]) -> None:
        """A snapshot that stays here."""
        self._kept[name] = super().snapshot(blocks, cpu_blocks)

    def put_back(self, name: int, clear: list[int]) -> None:
        super().restore(self._kept[name], clear)

    def drop(self, name: int) -> None:
        self._kept.pop(name, None)

    def weight_bytes(self) -> int:
        return self.model.num_bytes

    def pool_bytes(self) -> int:
        return self.kv_pool.data.nbytes

    def take_traffic(self) -> dict[str, Traffic]:
        return self.group.take_traffic()


class Rank:
    """The parts of all engines that a rank has, by number."""

    def __init__(self, group: Group, device: torch.device) -> None:
        self.group, self.device = group, device
        self.executors: dict[int, RankExecutor] = {}

    def make(self, number: int, *model: Any) -> None:
        self.executors[number] = RankExecutor(self.group, model[0], str(self.device), *model[1:])

    def share(self, number: int, of: int) -> None:
        self.executors[number] = self.executors[of].share()

    def let_go(self, number: int, *kept: int) -> None:
        """Of a snapshot, by its name, or of all that this engine has."""
        if not kept:
            self.executors.pop(number, None)
        elif number in self.executors:
            self.executors[number].drop(*kept)

    def do(self, number: int, what: str, args: tuple) -> Any:
        """Raises what the method raises; KeyError for a number that is not known."""
        if what in ("make", "share"):
            return getattr(self, what)(number, *args)
        return getattr(self.executors[number], what)(*args)
