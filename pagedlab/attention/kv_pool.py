"""Where do K and V live, and why in this order?

One tensor holds every block of every layer:

    [layers, 2 (K, V), blocks, block size, KV heads, head size]

The last five axes, read from the right, are the layout that vLLM calls **NHD** (token, head, dim): one token's K for
all heads is one run of memory, one block is `block size` such runs one after the other. Of its other layouts, **HND**
(head, token, dim) puts a block's tokens of one head together; FlashInfer on Blackwell data-centre cards and vLLM's CPU
back end want that one.

We choose NHD, for two readers that see the same bytes:

* **A GPU** reads memory in 16-byte vectors and 32-byte sectors. In NHD one KV head of one token is a run of
  `head size * bytes` (64 x 2 = 128 bytes for our model), each run starts at a multiple of 16 bytes, and so every load
  can be a full vector. HND makes longer runs, but a run of 128 bytes already fills four sectors; there is nothing left
  to win.
* **A CPU** copies rows. In NHD a token's K for all heads is one `memcpy`, and blocks that happen to be neighbours are
  a plain *view* `[tokens, KV heads, head size]`: no copy at all. HND cannot do that: between the tokens of one head in
  two neighbouring blocks lie the block's other heads.

K and V of one layer are apart, so that each is an ordinary contiguous tensor; K of *all* layers is still one tensor,
so that copying a block (copy-on-write, swap) is one call for the whole model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from pagedlab.attention.backends import backend_for
from pagedlab.attention.write import write_kv
from pagedlab.errors import whole
from pagedlab.kernels.pairs import check_pairs


@dataclass(frozen=True)
class LayerKV:
    """K and V of one layer, each `[blocks, block size, KV heads, head size]`.

    Any strides will do as long as the last one is 1; `KVPool` hands out NHD, and a test builds HND.
    """

    key: torch.Tensor
    value: torch.Tensor

    @property
    def num_blocks(self) -> int:
        return self.key.shape[0]

    @property
    def block_size(self) -> int:
        return self.key.shape[1]

    @property
    def num_kv_heads(self) -> int:
        return self.key.shape[2]

    @property
    def head_size(self) -> int:
        return self.key.shape[3]

    def write(self, key: torch.Tensor, value: torch.Tensor, slot_mapping: torch.Tensor, *, backend=None) -> None:
        """Put K and V of new tokens into their slots, in place.

        key, value `[tokens, KV heads, head size]`; slot_mapping int64 `[tokens]`, `slot = block * block_size + offset`.
        A slot of -1 is skipped: that is how a captured CUDA graph, whose batch size is fixed, carries empty places
        (vLLM: `reshape_and_cache`). Raises PagedlabError for shapes, dtypes or slots that cannot be right.
        """
        write_kv(self, key, value, slot_mapping, backend=backend)


class KVPool:
    """All KV memory of a model: one tensor, made once, whose addresses never change.

    Units: everything named `bytes` is bytes. Memory comes zeroed, and lazily: on a CPU untouched pages cost nothing.
    """

    def __init__(
        self,
        num_layers: int,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_size: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ):
        sizes = dict(
            num_layers=num_layers,
            num_blocks=num_blocks,
            block_size=block_size,
            num_kv_heads=num_kv_heads,
            head_size=head_size,
        )
        sizes = {name: whole(size, name, 1) for name, size in sizes.items()}
        self.num_layers = sizes["num_layers"]
        self.num_blocks = sizes["num_blocks"]
        self.block_size = sizes["block_size"]
        self.num_kv_heads = sizes["num_kv_heads"]
        self.head_size = sizes["head_size"]
        self.dtype = dtype
        shape = (num_layers, 2, num_blocks, block_size, num_kv_heads, head_size)
        with torch.inference_mode(False):  # a tensor made in inference mode could not be written outside of it
            self.data = (
                _lazy_zeros(shape, dtype)
                if torch.device(device).type == "cpu"
                else torch.zeros(shape, dtype=dtype, device=device)
            )
        self.device = self.data.device  # "cuda" has become the one that was current: "cuda:0"
        self._layers = [LayerKV(self.data[i, 0], self.data[i, 1]) for i in range(num_layers)]

    def layer(self, index: int) -> LayerKV:
        """K and V of one layer (the same object at every call)."""
        return self._layers[index]

    def copy_blocks(self, pairs: list[tuple[int, int]]) -> None:
        """Copy whole blocks inside the pool, K and V of all layers: the "copy" of copy-on-write.

        pairs are (source, destination) physical block ids. All sources are read before any destination is written, so
        the order of the pairs does not matter. Raises PagedlabError, and copies nothing, for an id outside the pool or
        two copies into one block.
        """
        sources, destinations = check_pairs("copy_blocks", pairs, self.num_blocks, self.num_blocks)
        if sources:
            backend_for(None, self.device).copy_blocks(self.data, sources, destinations)

    @property
    def bytes_per_token(self) -> int:
        """2 (K and V) x layers x KV heads x head size x bytes per element."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_size * self.data.element_size()

    @property
    def bytes_per_block(self) -> int:
        return self.block_size * self.bytes_per_token

    @property
    def num_bytes(self) -> int:
        return self.num_blocks * self.bytes_per_block

    def __repr__(self) -> str:
        return (
            f"KVPool({self.num_layers} layers, {self.num_blocks} blocks of {self.block_size} tokens, "
            f"{self.num_kv_heads} KV heads of {self.head_size}, {self.dtype}, {self.device}: {self.num_bytes:,} bytes)"
        )


def _lazy_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Zeros on the CPU whose pages the operating system hands out when they are first written.

    `torch.zeros` writes all of them at once, a second for each 2 GiB; NumPy asks for memory that is zero already
    (calloc).
    """
    num_bytes = math.prod(shape) * dtype.itemsize
    memory = torch.from_numpy(np.zeros(num_bytes + 64, dtype=np.uint8))
    start = -memory.data_ptr() % 64  # a cache line, and so any vector, begins where the pool begins
    return memory[start : start + num_bytes].view(dtype).view(shape)
