"""Llama as a list of kernels: weights in buffers of a GPU, and for a batch of tokens what is to be run, in which order.

The same parts as ``pagedlab/model/llama.py``, kernel for kernel; nothing is computed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pagedlab.errors import PagedlabError
from pagedlab.kernels.wgsl.gpu import GPU, Dispatch
from pagedlab.model.llama import LlamaModel, rope_frequencies

LANES = 64
ROWS = 8  # of a matrix that one workgroup takes
TOKENS = 4  # vectors that it multiplies them with, where there are as many
MOST_GROUPS = 65535  # workgroups in one direction of a dispatch: what every implementation allows


@dataclass(frozen=True)
class Matrix:
    """``pieces``: (buffer, first row, rows), since a kernel can read so much of a buffer and no more."""

    pieces: list[tuple[Any, int, int]]
    rows: int
    columns: int


class WebGPUModel:
    """The weights of ``model`` on ``gpu``, as numbers of ``dtype`` ("float32" or "float16")."""

    def __init__(self, gpu: GPU, model: LlamaModel, dtype: str) -> None:
        self.gpu, self.config, self.dtype = gpu, model.config, dtype
        c = self.config
        for name, size in (("hidden_size", c.hidden_size), ("head_size", c.head_size),
                           ("intermediate_size", c.intermediate_size)):  # fmt: skip
            if size % 4:
                raise PagedlabError(f"WebGPU's kernels read four numbers at once, and this model's {name} is {size}.")
        self.num_bytes = 0
        self.embedding = self._matrix(model.embedding)
        self.head = self.embedding if c.tie_word_embeddings else self._matrix(model.head)
        self.norm = self._vector(model.norm)
        self.none = self._vector(torch.zeros(4))
        self.layers = [
            {
                "attention_norm": self._vector(layer.attention_norm),
                "qkv": self._matrix(layer.qkv),
                "qkv_bias": self.none if layer.qkv_bias is None else self._vector(layer.qkv_bias),
                "output": self._matrix(layer.output),
                "mlp_norm": self._vector(layer.mlp_norm),
                "gate_up": self._matrix(layer.gate_up),
                "down": self._matrix(layer.down),
            }
            for layer in model.layers
        ]
        angles = torch.arange(c.max_model_len)[:, None] * rope_frequencies(c)
        self.cosines, self.sines = (gpu.upload(turn.numpy(), "rotations") for turn in (angles.cos(), angles.sin()))

    def _vector(self, weight: torch.Tensor) -> Any:
        array = self._numbers(weight)
        self.num_bytes += array.nbytes
        return self.gpu.upload(array, "weights")

    def _matrix(self, weight: torch.Tensor) -> Matrix:
        array = self._numbers(weight)
        self.num_bytes += array.nbytes
        most = min(self.gpu.largest // (array.shape[1] * array.itemsize), MOST_GROUPS * ROWS)
        pieces = [(self.gpu.upload(array[first : first + most], "weights"), first, len(array[first : first + most]))
                  for first in range(0, len(array), most)]  # fmt: skip
        return Matrix(pieces, *array.shape)

    def _numbers(self, weight: torch.Tensor) -> np.ndarray:
        return weight.detach().float().numpy().astype(self.dtype)


class Program:
    """What a step runs. Its buffers have room for ``most_tokens`` tokens at once, of ``most_rows`` requests.

    ``pool``: (key, value) buffers of each layer. ``table_width``: entries of a block table.
    """

    def __init__(
        self, model: WebGPUModel, pool: list[tuple[Any, Any]], *, block_size: int, table_width: int, most_tokens: int,
        most_rows: int,
    ) -> None:  # fmt: skip
        self.model, c, gpu = model, model.config, model.gpu
        self.most_tokens, self.most_rows = most_tokens, most_rows
        heads = c.num_query_heads + 2 * c.num_kv_heads
        width, attended, inner = heads * c.head_size, c.num_query_heads * c.head_size, c.intermediate_size
        sizes = {"token_ids": most_tokens, "positions": most_tokens, "slots": most_tokens, "requests": most_tokens,
                 "tables": most_rows * table_width, "counts": 2, "hidden": most_tokens * c.hidden_size,
                 "normed": max(most_tokens, most_rows) * c.hidden_size, "qkv": most_tokens * width,
                 "attended": most_tokens * attended, "gate_up": most_tokens * 2 * inner, "gated": most_tokens * inner,
                 "last": most_rows * c.hidden_size, "logits": most_rows * c.vocab_size,
                 "chosen": most_rows}  # fmt: skip
        self.buffers = b = {name: gpu.buffer(4 * size, f"The step's {name}") for name, size in sizes.items()}

        def kernel(name: str, lanes: int = LANES, **constants: int | float) -> Any:
            return gpu.kernel(name, model.dtype, LANES=lanes, **constants)

        embeds = [(kernel("embed", HIDDEN=c.hidden_size, FIRST=first, ROWS=rows), buffer)
                  for buffer, first, rows in model.embedding.pieces]  # fmt: skip
        norm = kernel("rms_norm", HIDDEN=c.hidden_size, EPSILON=float(c.rms_norm_eps))
        rope = kernel("rope", HEADS=c.num_query_heads + c.num_kv_heads, WIDTH=width, HEAD_SIZE=c.head_size)
        write = kernel("write_kv", ROW=c.num_kv_heads * c.head_size, KEY=attended, WIDTH=width)
        attend = kernel("attend", GROUP=c.num_query_heads // c.num_kv_heads, KV_HEADS=c.num_kv_heads,
                        HEAD_SIZE=c.head_size, BLOCK_SIZE=block_size, WIDTH=width, TABLE=table_width,
                        SCALE=c.head_size**-0.5)  # fmt: skip
        gate = kernel("gate", INTERMEDIATE=inner)
        argmax = kernel("argmax", lanes=256, VOCABULARY=c.vocab_size)

        # (kernel for one vector, for several, what is bound, groups in x, and what the second number of groups is)
        self._linears: dict[tuple, tuple[Any, Any]] = {}
        turned = -(-(c.num_query_heads + c.num_kv_heads) * c.head_size // 2 // LANES)
        steps = [(k.pipeline, k.bind(buffer, b["token_ids"], b["hidden"]), 0) for k, buffer in embeds]
        for layer, (key, value) in zip(model.layers, pool, strict=True):
            steps += [(norm.pipeline, norm.bind(b["hidden"], layer["attention_norm"], b["normed"]), 0)]
            steps += self._linear(layer["qkv"], layer["qkv_bias"], "normed", "qkv", BIAS=int(c.qkv_bias))
            steps += [
                (rope.pipeline, rope.bind(b["positions"], model.cosines, model.sines, b["qkv"]), turned),
                (write.pipeline, write.bind(b["qkv"], b["slots"], key, value), 0),
                (attend.pipeline, attend.bind(b["qkv"], key, value, b["tables"], b["requests"], b["positions"],
                                              b["attended"]), c.num_kv_heads),
            ]  # fmt: skip
            steps += self._linear(layer["output"], model.none, "attended", "hidden", ADD=1)
            steps += [(norm.pipeline, norm.bind(b["hidden"], layer["mlp_norm"], b["normed"]), 0)]
            steps += self._linear(layer["gate_up"], model.none, "normed", "gate_up")
            steps += [(gate.pipeline, gate.bind(b["gate_up"], b["gated"]), -(-inner // LANES))]
            steps += self._linear(layer["down"], model.none, "gated", "hidden", ADD=1)
        self._steps = steps
        self._ends = [(norm.pipeline, norm.bind(b["last"], model.norm, b["normed"]), 0)]
        self._ends += self._linear(model.head, model.none, "normed", "logits", COUNT=1)
        self._ends += [(argmax.pipeline, argmax.bind(b["logits"], b["chosen"]), 0)]

    def _linear(
        self, matrix: Matrix, bias: Any, source: str, result: str, *, ADD: int = 0, BIAS: int = 0, COUNT: int = 0
    ) -> list[tuple]:
        b, found = self.buffers, []
        for buffer, first, rows in matrix.pieces:
            constants = dict(IN=matrix.columns, OUT=rows, FIRST=first, WIDTH=matrix.rows)
            constants |= dict(ADD=ADD, BIAS=BIAS, COUNT=COUNT)
            key = tuple(constants.values())
            if key not in self._linears:
                self._linears[key] = tuple(
                    self.model.gpu.kernel("linear", self.model.dtype, LANES=32, ROWS=ROWS, TOKENS=tokens, **constants)
                    for tokens in (1, TOKENS)
                )
            one, several = self._linears[key]
            bound = one.bind(b["counts"], buffer, bias, b[source], b[result])
            found.append(((one.pipeline, several.pipeline), bound, -(-rows // ROWS)))
        return found

    def layers(self, tokens: int) -> list[Dispatch]:
        """From token ids to what the last layer leaves in ``hidden`` [tokens, hidden size]."""
        return [_dispatch(*step, tokens) for step in self._steps]

    def scores(self, rows: int) -> list[Dispatch]:
        """From ``last`` [rows, hidden size] to ``logits`` [rows, vocabulary] and ``chosen`` [rows]."""
        return [_dispatch(*step, rows) for step in self._ends]


def _dispatch(pipeline: Any, bound: Any, groups: int, count: int) -> Dispatch:
    """``groups`` 0: a workgroup for each token; else so many for each token, or for some tokens, of a product."""
    if isinstance(pipeline, tuple):
        return (pipeline[0], bound, (groups, 1)) if count == 1 else (pipeline[1], bound, (groups, -(-count // TOKENS)))
    return pipeline, bound, (groups, count) if groups else (count,)
