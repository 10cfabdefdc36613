"""One step's numbers as tensors: which tokens, at which positions, into which slots, over which tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from pagedlab.attention import KVPool, LayerKV
from pagedlab.attention import for_all_layers as read_in_all_layers
from pagedlab.attention.checks import check_values
from pagedlab.attention.write import check_slots
from pagedlab.attention.write import for_all_layers as write_in_all_layers
from pagedlab.executor.abstract import ScheduledRequest
from pagedlab.executor.buffers import Buffer, Copies, Tables, copies_to
from pagedlab.model.llama import EachToken, in_parts

Attend = Callable[[torch.Tensor, LayerKV], torch.Tensor]


@dataclass(frozen=True)
class DrawnTokens:
    """What was drawn after a batch: ``token_ids`` [draws] on the device, and ``places`` among them by request."""

    places: dict[str, int] = field(default_factory=dict)
    token_ids: torch.Tensor | None = None


class ModelRunner:
    """Runs the model over a ragged batch. Its buffers are made once and keep their addresses from step to step, so
    that a captured CUDA graph can read them.

    attention: a learner's own, called like ``paged_attention`` in every layer; None is pagedlab's, which looks once a
    step at what is the same in all layers. backend: which of ours; None is the one for the device. each_token: how
    tokens are cut for the parts of the model that treat each on its own (``pagedlab.model.llama.in_parts``). copies:
    how numbers get to the device; None goes by the device.

    Source: vLLM ``v1/worker/gpu_model_runner.py``.
    """

    def __init__(
        self,
        model: Any,
        kv_pool: KVPool,
        attention: Callable[..., torch.Tensor] | None = None,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_model_len: int,
        backend: str | None = None,
        each_token: EachToken = in_parts,
        copies: Copies | None = None,
    ) -> None:
        self.model = model
        self.kv_pool = kv_pool
        self.ready: Callable[[], None] | None = None  # called when a batch is known to be right, before it is computed
        reading = partial(read_in_all_layers, backend=backend)
        self._plan_reading = reading if attention is None else _in_each_layer(attention)
        self._each_token = each_token
        copies = copies_to(model.device) if copies is None else copies
        self._copies = copies
        max_blocks = -(-max_model_len // kv_pool.block_size)
        self._token_ids = Buffer((max_num_batched_tokens,), torch.int64, model.device, copies)
        self._positions = Buffer((max_num_batched_tokens,), torch.int64, model.device, copies)
        self._groups = model.config.layer_groups
        self.places = {layer: (g, i) for g, group in enumerate(self._groups) for i, layer in enumerate(group.layers)}
        numbers, tables = (max_num_batched_tokens,), (max_num_seqs, max_blocks)
        self._slot_mappings = [Buffer(numbers, torch.int64, model.device, copies) for _ in self._groups]
        self._block_tables = [Tables(tables, torch.int32, model.device, copies) for _ in self._groups]
        self._seq_lens = Buffer((max_num_seqs,), torch.int32, model.device, copies)
        self._query_start_loc = Buffer((max_num_seqs + 1,), torch.int32, model.device, copies)
        self._awaited = Buffer((max_num_seqs, 2), torch.int64, model.device, copies)  # where to, which of the drawn

    @torch.inference_mode()
    def run(self, batch: list[ScheduledRequest], last: DrawnTokens | None = None) -> torch.Tensor:
        """Write K and V of the batch's tokens into their slots. Returns float32 logits [requests, vocabulary] at each
        request's last scheduled token. ``last``: what was drawn after the batch before."""
        with torch.cuda.device_of(self.kv_pool.data):  # kernels of a learner's own start on the current device
            with self._copies or nullcontext():
                inputs = self._send(batch, last or DrawnTokens())
            if self.ready:
                self.ready()
            return self._compute(*inputs)

    def _send(self, batch: list[ScheduledRequest], last: DrawnTokens) -> tuple[Any, ...]:
        """The batch's numbers, on their way to the device: token ids and positions [tokens], for each group of layers
        slots [tokens] and block tables [requests, blocks], lengths [requests], and where each request's tokens begin
        [requests + 1]."""
        token_ids, positions, seq_lens, starts, awaited = [], [], [], [0], []
        slots = [[] for _ in self._groups]
        for row, part in enumerate(batch):
            token_ids += part.token_ids[part.start : part.end]
            if part.is_awaited:
                awaited.append((len(token_ids), part.drawn_in(last.places)))
                token_ids.append(0)
            positions += range(part.start, part.end)
            for mapping, tables, table in zip(slots, self._block_tables, part.tables, strict=True):
                mapping += table.slot_mapping(part.start, part.end)
                tables.fill_row(row, table.block_ids)
            seq_lens.append(part.end)
            starts.append(len(token_ids))
        self._token_ids.fill(token_ids)
        self._positions.fill(positions)
        self._seq_lens.fill(seq_lens)
        self._query_start_loc.fill(starts)
        for buffer, mapping in zip(self._slot_mappings, slots, strict=True):
            buffer.fill(mapping)
        num_tokens = len(token_ids)
        rows, widest = len(batch), max(len(part.tables[0]) for part in batch)
        for buffer, tables in zip(self._slot_mappings, self._block_tables, strict=True):
            mapping = buffer.host[:num_tokens]
            last_one_writes(mapping)
            if self._copies or self.ready:  # on a GPU nobody looks at values later: looking would be waiting
                layer, lengths = self.kv_pool.layer(0), self._seq_lens.staging[:rows]
                check_slots(mapping.min(), mapping.max(), layer)
                starts = self._query_start_loc.staging[: rows + 1]
                check_values(num_tokens, layer, tables.staging[:rows, :widest], lengths, starts)
        on_device = self._token_ids.send(num_tokens)
        if awaited:  # they go from the device to the device
            self._awaited.fill(awaited)
            to, place = self._awaited.send(len(awaited)).T
            on_device[to] = last.token_ids[place]
        return (
            on_device,
            self._positions.send(num_tokens),
            [buffer.send(num_tokens) for buffer in self._slot_mappings],
            [tables.send(rows)[:, :widest] for tables in self._block_tables],
            self._seq_lens.send(rows),
            self._query_start_loc.send(rows + 1),
        )

    def _compute(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        slot_mappings: list[torch.Tensor],
        block_tables: list[torch.Tensor],
        seq_lens: torch.Tensor,
        query_start_loc: torch.Tensor,
    ) -> torch.Tensor:
        """What the device does: on a GPU this only starts it, and is over long before it is done."""
        any_layer = self.kv_pool.layer(0)
        write = [write_in_all_layers(any_layer, slots) for slots in slot_mappings]
        read = [
            self._plan_reading(any_layer, tables, seq_lens, query_start_loc, group.window)
            for group, tables in zip(self._groups, block_tables, strict=True)
        ]

        def attend(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            group, place = self.places[layer]
            kv = self.kv_pool.layer(place)
            write[group](kv, key, value)  # all of the step's K and V first: they may be read in the same step
            return read[group](query, kv)

        hidden = self.model(token_ids, positions, attend, self._each_token)
        return self.model.logits(hidden[query_start_loc[1:].long() - 1], self._each_token)


def _in_each_layer(attention: Callable[..., torch.Tensor]) -> Callable[..., Attend]:
    """Plans nothing: ``attention`` is asked anew in every layer; of a window only where there is one."""

    def plan(_: LayerKV, *places: Any) -> Attend:
        *tables, window = places
        only = {} if window is None else {"sliding_window": window}
        return lambda query, layer: attention(query, layer, *tables, **only)

    return plan


def last_one_writes(slots: np.ndarray) -> None:
    """Where two tokens go into one slot (only after an edit by hand), let the later one of the batch have it, and skip
    the other (-1): a device would let chance decide."""
    if len(np.unique(slots)) == len(slots):
        return
    _, last = np.unique(slots[::-1], return_index=True)
    kept = np.zeros(len(slots), dtype=bool)
    kept[len(slots) - 1 - last] = True
    slots[~kept] = -1
