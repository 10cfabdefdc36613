"""Llama as a list of kernels: weights in buffers of a GPU, and for a batch of tokens what is to be run, in which order.

The same parts as ``pagedlab/model/llama.py``, kernel for kernel; nothing is computed here.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pagedlab.errors import PagedlabError
from pagedlab.kernels.wgsl.gpu import GPU, MOST_GROUPS, Dispatch, Kernel
from pagedlab.model.llama import LlamaModel, rope_frequencies

LANES = 64
ROWS = 8  # of a matrix that one workgroup takes
TOKENS = 4  # vectors that it multiplies them with, where there are as many


@dataclass(frozen=True)
class Matrix:
    """``pieces``: (buffer, first row, rows), since a kernel can read so much of a buffer and no more."""

    pieces: list[tuple[Any, int, int]]
    rows: int
    columns: int


class WebGPUModel:
    """The weights of ``model`` on ``gpu``, as numbers of ``dtype``, float32 or float16. ``num_bytes``: of weights."""

    device = torch.device("cpu")  # where torch measures what a chapter compares with

    def __init__(self, gpu: GPU, model: LlamaModel, dtype: torch.dtype) -> None:
        self.gpu, self.config, self.dtype = gpu, model.config, dtype
        self.number = str(dtype).removeprefix("torch.")  # as the kernels call it
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
        return weight.detach().to(self.dtype).numpy()


@dataclass(frozen=True)
class Step:
    """One kernel of a step. ``part`` of the model, as ``layers`` names it. ``one``, ``several``: the kernel for a
    single token and for more of them, of which the second takes ``at_once`` with a workgroup. ``groups``: workgroups
    for each of these (None: one, which is counted in x)."""

    part: str
    one: Kernel
    several: Kernel
    at_once: int
    bound: Any
    groups: int | None

    def dispatch(self, count: int) -> Dispatch:
        """For ``count`` tokens."""
        kernel, at_once = (self.one, 1) if count == 1 else (self.several, self.at_once)
        times = -(-count // at_once)
        return kernel.pipeline, self.bound, (times,) if self.groups is None else (self.groups, times)


class Program:
    """What a step runs. Its buffers have room for ``most_tokens`` tokens at once, of ``most_rows`` requests.

    ``pool``: (key, value) buffers of each layer. ``table_width``: entries of a block table.
    """

    def __init__(
        self, model: WebGPUModel, pool: list[tuple[Any, Any]], *, block_size: int, table_width: int, most_tokens: int,
        most_rows: int,
    ) -> None:  # fmt: skip
        self.model, c = model, model.config
        self.most_tokens, self.most_rows = most_tokens, most_rows
        self.attended = c.num_query_heads * c.head_size
        self.width = self.attended + 2 * c.num_kv_heads * c.head_size  # of a token's query, key and value
        self.buffers = self._buffers(table_width)
        self._products: dict[tuple, tuple[Kernel, Kernel]] = {}
        self._kernels = self._compile(block_size, table_width)
        self.embed = self._embed()
        self.layers = [self._layer(*one) for one in zip(model.layers, pool, strict=True)]
        self.scores = [
            self._norm("last", model.norm),
            *self._product("head", model.head, "normed", "logits", COUNT=1),
            self._step("argmax", "logits", "chosen"),
        ]

    def layers_of(self, tokens: int) -> list[Dispatch]:
        """From token ids to what the last layer leaves in ``hidden`` [tokens, hidden size]."""
        steps = itertools.chain(self.embed, *self.layers)
        return [step.dispatch(tokens) for step in steps]

    def scores_of(self, rows: int) -> list[Dispatch]:
        """From ``last`` [rows, hidden size] to ``logits`` [rows, vocabulary] and ``chosen`` [rows]."""
        return [step.dispatch(rows) for step in self.scores]

    def query_of(self, layer: int) -> list[Dispatch]:
        """For one token: up to what attention of ``layer`` is asked, in ``qkv``. K and V stay as they are."""
        before = itertools.chain(self.embed, *self.layers[:layer])
        last = itertools.takewhile(lambda step: step.part != "write_kv", self.layers[layer])
        return [step.dispatch(1) for step in itertools.chain(before, last) if step.part != "write_kv"]

    def _buffers(self, table_width: int) -> dict[str, Any]:
        """The step's memory, four bytes a number."""
        c, tokens, rows = self.model.config, self.most_tokens, self.most_rows
        numbers = {name: tokens for name in ("token_ids", "positions", "slots", "requests")}
        numbers |= {"tables": rows * table_width, "counts": 2, "chosen": rows}
        vectors = {"hidden": c.hidden_size, "qkv": self.width, "attended": self.attended,
                   "gate_up": 2 * c.intermediate_size, "gated": c.intermediate_size}  # fmt: skip
        numbers |= {name: tokens * size for name, size in vectors.items()}
        numbers |= {"normed": max(tokens, rows) * c.hidden_size, "last": rows * c.hidden_size}
        numbers |= {"logits": rows * c.vocab_size}
        return {name: self.model.gpu.buffer(4 * size, f"The step's {name}") for name, size in numbers.items()}

    def _compile(self, block_size: int, table_width: int) -> dict[str, Kernel]:
        """Every kernel but the products."""
        c = self.model.config
        turned = c.num_query_heads + c.num_kv_heads
        constants = {
            "rms_norm": dict(HIDDEN=c.hidden_size, EPSILON=float(c.rms_norm_eps)),
            "rope": dict(HEADS=turned, WIDTH=self.width, HEAD_SIZE=c.head_size),
            "write_kv": dict(ROW=c.num_kv_heads * c.head_size, KEY=self.attended, WIDTH=self.width),
            "attend": dict(GROUP=c.num_query_heads // c.num_kv_heads, KV_HEADS=c.num_kv_heads, HEAD_SIZE=c.head_size,
                           BLOCK_SIZE=block_size, WIDTH=self.width, TABLE=table_width, SCALE=c.head_size**-0.5),
            "gate": dict(INTERMEDIATE=c.intermediate_size),
        }  # fmt: skip
        made = {name: self._kernel(name, LANES=LANES, **of) for name, of in constants.items()}
        return made | {"argmax": self._kernel("argmax", LANES=256, VOCABULARY=c.vocab_size)}

    def _kernel(self, name: str, **constants: int | float) -> Kernel:
        return self.model.gpu.kernel(name, self.model.number, **constants)

    def _step(self, part: str, *bound: Any, groups: int | None = None, kernel: Kernel | None = None) -> Step:
        """``bound``: buffers, or names of the step's own. ``kernel``: by default the part's."""
        kernel = kernel or self._kernels[part]
        buffers = (self.buffers[one] if isinstance(one, str) else one for one in bound)
        return Step(part, kernel, kernel, 1, kernel.bind(*buffers), groups)

    def _embed(self) -> list[Step]:
        steps = []
        for buffer, first, rows in self.model.embedding.pieces:
            kernel = self._kernel("embed", LANES=LANES, HIDDEN=self.model.config.hidden_size, FIRST=first, ROWS=rows)
            steps.append(self._step("embed", buffer, "token_ids", "hidden", kernel=kernel))
        return steps

    def _norm(self, source: str, weight: Any) -> Step:
        return self._step("rms_norm", source, weight, "normed")

    def _layer(self, layer: dict[str, Any], pool: tuple[Any, Any]) -> list[Step]:
        model, c = self.model, self.model.config
        turned = -(-(c.num_query_heads + c.num_kv_heads) * c.head_size // 2 // LANES)
        return [
            self._norm("hidden", layer["attention_norm"]),
            *self._product("qkv", layer["qkv"], "normed", "qkv", bias=layer["qkv_bias"], BIAS=int(c.qkv_bias)),
            self._step("rope", "positions", model.cosines, model.sines, "qkv", groups=turned),
            self._step("write_kv", "qkv", "slots", *pool),
            self._step("attend", "qkv", *pool, "tables", "requests", "positions", "attended", groups=c.num_kv_heads),
            *self._product("output", layer["output"], "attended", "hidden", ADD=1),
            self._norm("hidden", layer["mlp_norm"]),
            *self._product("gate_up", layer["gate_up"], "normed", "gate_up"),
            self._step("gate", "gate_up", "gated", groups=-(-c.intermediate_size // LANES)),
            *self._product("down", layer["down"], "gated", "hidden", ADD=1),
        ]

    def _product(
        self, part: str, matrix: Matrix, source: str, result: str, *, bias: Any = None, ADD: int = 0, BIAS: int = 0,
        COUNT: int = 0,
    ) -> list[Step]:  # fmt: skip
        """``matrix`` with each vector of ``source``: a kernel for one, and one for TOKENS at once."""
        steps = []
        for buffer, first, rows in matrix.pieces:
            constants = dict(IN=matrix.columns, OUT=rows, FIRST=first, WIDTH=matrix.rows, ADD=ADD, BIAS=BIAS)
            constants |= dict(COUNT=COUNT, LANES=32, ROWS=ROWS)
            key = tuple(constants.values())
            if key not in self._products:
                self._products[key] = tuple(self._kernel("linear", TOKENS=n, **constants) for n in (1, TOKENS))
            one, several = self._products[key]
            given = (self.buffers["counts"], buffer, self.model.none if bias is None else bias,
                     self.buffers[source], self.buffers[result])  # fmt: skip
            steps.append(Step(part, one, several, TOKENS, one.bind(*given), -(-rows // ROWS)))
        return steps
