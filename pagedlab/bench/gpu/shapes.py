"""The sizes that decode attention is measured at, and what a time says beside a copy of memory.

Shapes are Llama 3.1 8B's: 32 query heads, 8 KV heads, head size 128, 16-bit numbers, so 4,096 bytes of K and V a token
and layer. "GB/s" of decode counts K and V once, which is what has to be read; "of copy" is that against a copy of the
device's memory measured in the same run (bytes read plus bytes written).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(kw_only=True)
class Shapes:
    """The defaults are what is measured on a GPU."""

    query_heads: int = 32
    kv_heads: int = 8
    head_size: int = 128
    batches: tuple[int, ...] = (1, 4, 16, 64, 256)
    contexts: tuple[int, ...] = (128, 1024, 4096, 32768)
    new_tokens: int = 48  # of each request that the engine decodes
    copy_bandwidth: float | None = None  # bytes a second

    dtype: Any  # has an itemsize: torch's, numpy's

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.kv_heads * self.head_size * self.dtype.itemsize

    def share(self, batch: int, context: int, seconds: float) -> dict:
        """Figures of a decode call: bandwidth, and its share of the copy's."""
        bandwidth = batch * context * self.bytes_per_token / seconds
        share = bandwidth / self.copy_bandwidth if self.copy_bandwidth else None
        return {"batch": batch, "context": context, "seconds": seconds, "bytes_per_second": bandwidth, "of_copy": share}


def speed(figures: dict) -> str:
    """What :meth:`Shapes.share` found, as it stands in the table."""
    share = "" if figures["of_copy"] is None else f"  {figures['of_copy']:6.1%} of copy"
    return f"{figures['seconds'] * 1e6:10.1f} us  {figures['bytes_per_second'] / 1e9:8.2f} GB/s{share}"
