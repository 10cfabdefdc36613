"""One step's numbers as tensors: which tokens, at which positions, into which slots, over which tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pagedlab.attention import KVPool, LayerKV, paged_attention
from pagedlab.attention import for_all_layers as read_in_all_layers
from pagedlab.attention.write import for_all_layers as write_in_all_layers
from pagedlab.kv.block_table import BlockTable


@dataclass
class ScheduledRequest:
    """A request's part of a step: tokens ``start`` to ``end`` (exclusive) of ``token_ids`` go through the model."""

    request_id: str
    token_ids: list[int]
    start: int
    end: int
    table: BlockTable


class ModelRunner:
    """Runs the model over a ragged batch. Its buffers are made once and keep their addresses from step to step, so
    that a captured CUDA graph can read them.

    Source: vLLM ``v1/worker/gpu_model_runner.py``.
    """

    def __init__(
        self,
        model: Any,
        kv_pool: KVPool,
        attention: Callable[..., torch.Tensor],
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_model_len: int,
    ) -> None:
        self.model = model
        self.kv_pool = kv_pool
        self.attention = attention
        max_blocks = -(-max_model_len // kv_pool.block_size)
        self._token_ids = _Buffer((max_num_batched_tokens,), torch.int64, model.device)
        self._positions = _Buffer((max_num_batched_tokens,), torch.int64, model.device)
        self._slot_mapping = _Buffer((max_num_batched_tokens,), torch.int64, model.device)
        self._block_tables = _Buffer((max_num_seqs, max_blocks), torch.int32, model.device)
        self._seq_lens = _Buffer((max_num_seqs,), torch.int32, model.device)
        self._query_start_loc = _Buffer((max_num_seqs + 1,), torch.int32, model.device)

    @torch.inference_mode()
    def run(self, batch: list[ScheduledRequest]) -> torch.Tensor:
        """Write K and V of the batch's tokens into their slots. Returns float32 logits [requests, vocabulary] at each
        request's last scheduled token."""
        num_tokens = 0
        for row, part in enumerate(batch):
            span = slice(num_tokens, num_tokens + part.end - part.start)
            self._token_ids.host[span] = part.token_ids[part.start : part.end]
            self._positions.host[span] = np.arange(part.start, part.end)
            self._slot_mapping.host[span] = part.table.slot_mapping(part.start, part.end)
            self._block_tables.host[row, : len(part.table)] = part.table.block_ids
            self._seq_lens.host[row] = part.end
            num_tokens = span.stop
            self._query_start_loc.host[row + 1] = num_tokens
        _last_one_writes(self._slot_mapping.host[:num_tokens])
        rows = len(batch)
        widest = max(len(part.table) for part in batch)
        token_ids, positions = self._token_ids.send(num_tokens), self._positions.send(num_tokens)
        slot_mapping = self._slot_mapping.send(num_tokens)
        block_tables = self._block_tables.send(rows)[:, :widest]
        seq_lens, query_start_loc = self._seq_lens.send(rows), self._query_start_loc.send(rows + 1)

        places = (block_tables, seq_lens, query_start_loc)
        write = write_in_all_layers(self.kv_pool.layer(0), slot_mapping)
        if self.attention is paged_attention:
            read = read_in_all_layers(self.kv_pool.layer(0), *places)
        else:  # a learner's part

            def read(query: torch.Tensor, kv: LayerKV) -> torch.Tensor:
                return self.attention(query, kv, *places)

        def attend(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            kv = self.kv_pool.layer(layer)
            write(kv, key, value)  # all of the step's K and V first: they may be read in the same step
            return read(query, kv)

        hidden = self.model(token_ids, positions, attend)
        return self.model.logits(hidden[query_start_loc[1:].long() - 1])


def _last_one_writes(slots: np.ndarray) -> None:
    """Where two tokens go into one slot (only after an edit by hand), let the later one of the batch have it, and skip
    the other (-1): a device would let chance decide."""
    if len(np.unique(slots)) == len(slots):
        return
    _, last = np.unique(slots[::-1], return_index=True)
    kept = np.zeros(len(slots), dtype=bool)
    kept[len(slots) - 1 - last] = True
    slots[~kept] = -1


class _Buffer:
    """A fixed tensor on the device and the numpy array on the host that fills it (on a CPU they are the same
    memory)."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        pinned = device.type == "cuda"
        staging = torch.zeros(shape, dtype=dtype, pin_memory=pinned)
        self.host = staging.numpy()
        self._staging = staging
        self._device = torch.zeros(shape, dtype=dtype, device=device) if pinned else staging

    def send(self, count: int) -> torch.Tensor:
        """The first ``count`` rows, up to date on the device."""
        if self._device is not self._staging:
            self._device[:count].copy_(self._staging[:count], non_blocking=True)
        return self._device[:count]
