"""Which part of the model does each of several ranks get, and where do they need each other?

Attention heads have nothing to do with each other until the output projection adds them up, and neurons of the
feed-forward nothing until the down projection does. So a rank gets some heads and some neurons: rows of the matrices
that make them (query, key, value, gate, up), and the columns that read them (output, down). What these last two give
is then a part of a sum, and one all-reduce after each of them makes the whole of it: two in a layer. The vocabulary is
dealt out too: a rank looks up the tokens that it has and scores the tokens that it has.

Where there are more ranks than KV heads, a KV head is copied: each of its ranks has some of the query heads that read
it. The pool follows from that: a rank's blocks hold its own KV heads.

Source: Megatron-LM (Shoeybi et al. 2019); vLLM ``model_executor/layers/linear.py``, ``vocab_parallel_embedding.py``.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from pagedlab.errors import PagedlabError
from pagedlab.model.config import LlamaConfig


def allowed_sizes(config: LlamaConfig) -> list[int]:
    """Over how many ranks the model can be split: query heads and neurons come out even, and KV heads do, or are copied
    evenly.

    Source: vLLM ``config/model.py``, ``ModelConfig.verify_with_parallel_config``; ``QKVParallelLinear``.
    """
    query, kv, neurons = config.num_query_heads, config.num_kv_heads, config.intermediate_size
    sizes = range(1, query + 1)
    return [n for n in sizes if query % n == 0 and neurons % n == 0 and (kv % n == 0 or n % kv == 0)]


def check_size(config: LlamaConfig, size: int) -> None:
    """Raises PagedlabError where the model cannot be split over ``size`` ranks."""
    allowed = allowed_sizes(config)
    if size not in allowed:
        raise PagedlabError(
            f"tensor_parallel_size is {size}; {config.name} has {config.num_query_heads} query heads, "
            f"{config.num_kv_heads} KV heads and {config.intermediate_size:,} neurons a layer, which come out even "
            f"over these numbers of ranks: {', '.join(map(str, allowed))}."
        )


@dataclass(frozen=True)
class Split:
    """The part of ``rank``, of ``size`` ranks. Its methods are given the whole model's configuration."""

    rank: int = 0
    size: int = 1

    def config(self, whole: LlamaConfig) -> LlamaConfig:
        """The shape of this rank's part: fewer heads, fewer neurons. The vocabulary is the whole one."""
        heads, kv_heads, neurons = map(len, (self.query_heads(whole), self.kv_heads(whole), self.neurons(whole)))
        return dataclasses.replace(whole, num_query_heads=heads, num_kv_heads=kv_heads, intermediate_size=neurons)

    def query_heads(self, whole: LlamaConfig) -> range:
        return self._share(whole.num_query_heads)

    def kv_heads(self, whole: LlamaConfig) -> range:
        """Those that its query heads read; where there are more ranks than KV heads, one, which its neighbours have
        too."""
        if self.size <= whole.num_kv_heads:
            return self._share(whole.num_kv_heads)
        head = self.rank // (self.size // whole.num_kv_heads)
        return range(head, head + 1)

    def neurons(self, whole: LlamaConfig) -> range:
        return self._share(whole.intermediate_size)

    def vocabulary(self, whole: LlamaConfig) -> range:
        """All ranks have as many rows; where the vocabulary does not come out even, the last ones of the last rank are
        no token's. (vLLM pads to a multiple of 64, and wants that to come out even.)"""
        rows = -(-whole.vocab_size // self.size)
        return range(self.rank * rows, (self.rank + 1) * rows)

    def _share(self, count: int) -> range:
        each = count // self.size
        return range(self.rank * each, (self.rank + 1) * each)

    def part(self, name: str, values: Tensor, whole: LlamaConfig) -> Tensor:
        """This rank's part of a checkpoint's weight or bias, by its name in Hugging Face's layout. Of the vocabulary it
        may have fewer rows than the rank has room for."""
        if self.size == 1:
            return values
        match name.split(".")[-2]:
            case "q_proj":
                return rows_of(values, self.query_heads(whole), whole.head_size)
            case "k_proj" | "v_proj":
                return rows_of(values, self.kv_heads(whole), whole.head_size)
            case "gate_proj" | "up_proj":
                return rows_of(values, self.neurons(whole))
            case "embed_tokens" | "lm_head":
                return rows_of(values, self.vocabulary(whole))
            case "o_proj":
                return rows_of(values.T, self.query_heads(whole), whole.head_size).T
            case "down_proj":
                return rows_of(values.T, self.neurons(whole)).T
        return values  # norms


def rows_of(values: Tensor, parts: range, rows: int = 1) -> Tensor:
    """The rows of ``parts`` (consecutive), each of which has so many: a view."""
    return values[parts.start * rows : parts.stop * rows]


class Group(Protocol):
    """The ranks that hold a model together: where the model is not whole, it asks them."""

    split: Split

    def all_reduce(self, part: Tensor) -> Tensor:
        """The sum of all ranks' parts, in each of them; may be written into ``part``."""

    def all_gather(self, part: Tensor) -> Tensor:
        """All ranks' parts [n, m] side by side, in each of them: [n, ranks x m]."""


class Alone:
    """The group of a model that is whole: there is nobody to ask."""

    split = Split()

    def all_reduce(self, part: Tensor) -> Tensor:
        return part

    def all_gather(self, part: Tensor) -> Tensor:
        return part


ALONE = Alone()
