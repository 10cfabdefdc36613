"""Which tokens go through the model together, so that none of them gets other bits from its neighbours?

A product of matrices adds numbers, and in floating point the order of additions moves the last bits. A library
chooses that order by the sizes of the matrices, so what a token gets depends on how many are beside it. Here the sizes
never change: the parts that treat each token on its own always see exactly `size` tokens, a last tile is filled up
with zeros, and so every product, norm and sum has one form, whatever the batch and however a prompt is cut.

What is left is a token's place in its tile. `check` asks this machine's libraries, once for an engine, whether that
matters.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pagedlab.errors import PagedlabError
from pagedlab.model.llama import EachToken, LlamaModel

# Tokens of a tile. In fp32, and on a GPU, a product of 16 rows costs little more than one of few. On a CPU without
# instructions for 16 bits each row costs as much as the first, and a tile that is filled up with zeros is lost time.
SIZE, SIZE_OF_16_BITS_ON_A_CPU = 16, 4


class Tiles:
    """`tiles(part, *rows)`: see `pagedlab.model.llama.in_parts`; here in tiles of `size` tokens, the last one filled.

    Each tile lies in memory of its own: a library may go by how its numbers are aligned.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, part: EachToken, *rows: Tensor) -> Tensor:
        cut = zip(*(t.split(self.size) for t in rows), strict=True)
        done = [part(*(self._filled(t) for t in tile)) for tile in cut]
        return (done[0] if len(done) == 1 else torch.cat(done))[: len(rows[0])]

    def _filled(self, rows: Tensor) -> Tensor:
        tile = rows.new_empty(self.size, *rows.shape[1:])
        tile[: len(rows)] = rows
        tile[len(rows) :] = 0
        return tile


def tiles_for(model: LlamaModel) -> Tiles:
    """The tiles of a model on its device, checked. Raises PagedlabError as `check` does."""
    slow = model.device.type == "cpu" and model.dtype.itemsize == 2
    tiles = Tiles(SIZE_OF_16_BITS_ON_A_CPU if slow else SIZE)
    check(model, tiles.size)
    return tiles


@torch.inference_mode()
def check(model: LlamaModel, size: int, rounds: int = 2) -> None:
    """Send tiles of `size` equal tokens through one layer and the last product: all must come out with equal bits.

    Raises PagedlabError where they do not: then this machine's libraries treat a row by its place, and no tile helps.
    """
    generator, layer = torch.Generator().manual_seed(0), model.layers[0]
    for position in range(rounds):
        hidden = torch.randn(model.config.hidden_size, generator=generator).to(model.device, model.dtype)
        hidden = hidden.expand(size, -1).contiguous()
        cos, sin = (t[[position] * size].repeat(1, 1, 2) for t in (model.cos, model.sin))
        heads = layer.heads(hidden, cos, sin)
        attended = heads[:, : model.config.num_query_heads].flatten(1).contiguous()
        after = layer.add_both(hidden, attended)
        found = (("heads", heads), ("a layer", after), ("logits", model.logits(after)))  # all, before one is judged:
        for name, rows in found:  # other ranks may be waiting for the later ones
            if not torch.equal(rows, rows[:1].expand_as(rows)):
                raise PagedlabError(
                    f"batch_invariant=True cannot be kept here: {name} of equal tokens differ by their place in a tile "
                    f"of {size}, on {model.device} in {str(model.dtype).removeprefix('torch.')}. Use another device or "
                    "dtype, or torch.set_num_threads(1)."
                )
