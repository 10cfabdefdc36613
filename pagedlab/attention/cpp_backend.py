"""How does a CPU read scattered blocks without bringing them together first?

The kernel in C++ (`kernels/cpp/blocks.cpp`) looks each block up as it comes to it, as a GPU's does. It is for requests
that decode, one query each, in float32; prompts, 16 bits and soft caps go the way of `torch_backend`.
"""

from __future__ import annotations

import ctypes

import torch

from pagedlab.attention import torch_backend
from pagedlab.attention.backends import AttentionBackend
from pagedlab.kernels.cpp import library
from pagedlab.kernels.cpp.calls import at

NUMBERS_AT_ONCE = 8  # of a head: what a vector of the kernel holds


class Sizes(ctypes.Structure):
    """As `Sizes` in `blocks.cpp`; strides in numbers, not in bytes."""

    _fields_ = [
        *((name, ctypes.c_long) for name in ("requests", "query_heads", "kv_heads", "head_size", "block_size")),
        *((name, ctypes.c_long) for name in ("block_stride", "slot_stride", "head_stride", "max_blocks", "window")),
        ("scale", ctypes.c_float),
    ]

    @classmethod
    def of(cls, layer, **others):
        block, slot, head = layer.key.stride()[:3]
        return cls(
            kv_heads=layer.num_kv_heads, head_size=layer.head_size, block_size=layer.block_size,
            block_stride=block, slot_stride=slot, head_stride=head, **others,
        )  # fmt: skip


def suits(layer) -> bool:
    """Can the kernel read this layer of a pool: float32 on a CPU, K and V in one order, heads of whole vectors?"""
    return (
        layer.key.device.type == "cpu"
        and layer.key.dtype == torch.float32
        and layer.key.stride() == layer.value.stride()
        and layer.key.stride(-1) == 1
        and layer.head_size % NUMBERS_AT_ONCE == 0
    )


def attention(query, layer, block_tables, seq_lens, query_start_loc, scale, sliding_window=None, soft_cap=None):
    """See `pagedlab.attention.paged_attention`; here with `scale` given."""
    chosen = Plan if suits(layer) and soft_cap is None else torch_backend.Plan
    return chosen(layer, block_tables, seq_lens, query_start_loc, sliding_window).run(query, layer, scale, soft_cap)


class Plan(torch_backend.Plan):
    """What is the same in every layer of a step, for layers that suit; see `torch_backend.Plan`."""

    def plan_decodes(self, layer, block_tables, lengths, starts, decoding, sliding_window):
        self.rows = torch.tensor([starts[r] for r in decoding])
        self.only_decodes = len(decoding) == starts[-1]
        all_of_them = len(decoding) == len(lengths)  # else some have no query, or several
        self.tables = block_tables.contiguous() if all_of_them else block_tables[decoding]
        self.lengths = torch.tensor([lengths[r] for r in decoding], dtype=torch.int32)
        window = max(lengths, default=0) if sliding_window is None else sliding_window
        self.sizes = Sizes.of(layer, requests=len(decoding), max_blocks=self.tables.shape[1], window=window)

    def run(self, query, layer, scale, soft_cap=None):
        if self.only_decodes:
            return self._decode(query, layer, scale)
        return super().run(query, layer, scale, soft_cap)

    def run_decodes(self, output, query, layer, scale, soft_cap):
        if len(self.rows):
            output[self.rows] = self._decode(query[self.rows], layer, scale)

    def _decode(self, query, layer, scale):
        """`query [requests, query heads, head size]`, one query each."""
        query = _heads_together(query)
        output = query.new_empty(query.shape)
        self.sizes.query_heads, self.sizes.scale = query.shape[1], scale
        places = at(self.tables), at(self.lengths)
        into = at(output), ctypes.byref(self.sizes), query.stride(0)
        library.loaded().attend(at(query), at(layer.key), at(layer.value), *places, *into)
        return output


def write(layer, slot_mapping, lowest):
    """`put(layer, key, value)` for a step; see `AttentionBackend`."""
    if not suits(layer):
        return torch_backend.write(layer, slot_mapping, lowest)
    sizes = ctypes.byref(Sizes.of(layer))

    def put(layer, key, value):
        key, value = _heads_together(key), _heads_together(value)
        into = at(layer.key), at(layer.value), sizes, len(key), key.stride(0), value.stride(0)
        library.loaded().write_kv(at(key), at(value), at(slot_mapping), *into)

    return put


def _heads_together(t):
    """`[tokens, heads, head size]`, where the heads of a token are one run of memory."""
    return t if t.stride(1) == t.shape[2] and t.stride(2) == 1 else t.contiguous()


def _plan(layer, *places):
    return (Plan if suits(layer) else torch_backend.Plan)(layer, *places).run


BACKEND = AttentionBackend(
    name="cpp",
    devices=("cpu",),
    attend=attention,
    plan=_plan,
    write=write,
    copy_blocks=torch_backend.copy_blocks,
    why_not=library.why_not,
)
