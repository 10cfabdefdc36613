"""How fast could this machine be at best? The time of the products and of attention alone, measured here and now.

A step of a model is matrix products with all weights, attention, and much small stuff. The bound counts the first two:
each product in the quickest of several forms that say the same, on the model's own weights, and attention over
contiguous K and V of the same shapes, of which every layer has its own (as in a real run, they come from memory, not
from the cache). Everything else, paging among it, is what an engine adds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from pagedlab.attention import LayerKV, for_all_layers
from pagedlab.bench.workloads import Workload
from pagedlab.kernels.cpp import calls
from pagedlab.model import llama
from pagedlab.model.llama import LlamaModel

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _turned(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return weight @ (x if len(x) > 1 else torch.cat((x, x))).t()


def _blocks(rows: int) -> Product:
    return lambda x, weight: torch.matmul(x, weight.view(-1, rows, weight.shape[1]).transpose(1, 2))


FORMS: dict[str, Product] = {
    "F.linear(x, W)": F.linear,
    "W @ x.T": _turned,
    "x @ W.T in blocks of 64 rows": _blocks(64),
    "x @ W.T in blocks of 96 rows": _blocks(96),
    "x @ W.T in blocks of 192 rows": _blocks(192),
    "oneDNN": llama.linear.plain,
    "our kernel in C++": calls.linear,
}
MATRICES = ("qkv", "output", "gate_up", "down", "head")


@dataclass
class Bound:
    """`products` (seconds of one pass, by kind of step) and `attention`; `forms`: which form won for which matrix."""

    prefill_products: float
    prefill_attention: float
    decode_products: float
    decode_attention: float
    decode_steps: int
    forms: dict[str, dict[str, str]]

    @property
    def seconds(self) -> float:
        decode = self.decode_steps * (self.decode_products + self.decode_attention)
        return self.prefill_products + self.prefill_attention + decode


class BoundOf:
    """The bound of one workload: `measure()` as often as wanted. What wins is found out at the start."""

    def __init__(self, model: LlamaModel, workload: Workload) -> None:
        self.model, self.workload = model, workload
        lengths = workload.lengths
        own = sum(lengths) - workload.shared * (len(lengths) - 1)  # the common part is computed once
        self.requests = len(lengths)
        with torch.inference_mode():
            self.prefill_x = self._inputs(own)
            self.decode_x = self._inputs(self.requests)
            self.prefill_forms = {name: self._best(name, self.prefill_x) for name in MATRICES}
            self.decode_forms = {name: self._best(name, self.decode_x) for name in MATRICES}
            context = [n + workload.new // 2 for n in lengths]  # halfway through the answers
            self.decode_attention = _Decode(model, context)
            self.prefill_attention = _Prefill(model, workload)

    @torch.inference_mode()
    def measure(self) -> Bound:
        decode = [self._products(self.decode_x, self.decode_forms) for _ in range(9)]
        attention = [self.decode_attention.seconds() for _ in range(9)]
        return Bound(
            self._products(self.prefill_x, self.prefill_forms),
            self.prefill_attention.seconds(),
            statistics.median(decode),
            statistics.median(attention),
            self.workload.new - 1,  # the first new token comes from the prompt's step
            {"prefill": self.prefill_forms, "decode": self.decode_forms},
        )

    def _inputs(self, tokens: int) -> dict[str, torch.Tensor]:
        c = self.model.config
        sizes = dict.fromkeys(MATRICES, c.hidden_size)
        sizes |= {"output": c.num_query_heads * c.head_size, "down": c.intermediate_size}
        rows = dict.fromkeys(MATRICES, tokens) | {"head": self.requests}  # only the last tokens need scores
        return {name: torch.randn(rows[name], sizes[name]) for name in MATRICES}

    def _weights(self, name: str) -> list[torch.Tensor]:
        return [self.model.head] if name == "head" else [getattr(layer, name) for layer in self.model.layers]

    def _best(self, name: str, inputs: dict[str, torch.Tensor]) -> str:
        """The quickest form for one kind of matrix."""
        weights, x, times = self._weights(name), inputs[name], {}
        if len(x) > 128:
            weights = weights[:4]  # a large product takes long, and its time does not depend on the cache
        for form, product in FORMS.items():
            if form.startswith("x @ W.T in blocks") and len(weights[0]) % int(form.split()[-2]):
                continue
            if form == "W @ x.T" and len(x) > 128:
                continue  # never the best there
            if product is calls.linear and not calls.suits(x):
                continue
            best = min(_time(lambda p=product: [p(x, w) for w in weights]) for _ in range(2))
            times[form] = best
        return min(times, key=times.__getitem__)

    def _products(self, inputs: dict[str, torch.Tensor], forms: dict[str, str]) -> float:
        """Seconds of all products of one pass, layer after layer."""
        calls = [(FORMS[forms[name]], inputs[name], name) for name in MATRICES[:-1]]

        def one_pass() -> None:
            for layer in self.model.layers:
                for product, x, name in calls:
                    product(x, getattr(layer, name))
            FORMS[forms["head"]](inputs["head"], self.model.head)

        return _time(one_pass)


class _Decode:
    """Attention of one new token per request over contiguous K and V, padded to the longest."""

    def __init__(self, model: LlamaModel, context: list[int]) -> None:
        c, longest = model.config, max(context)
        shape = (c.num_layers, 2, len(context), c.num_kv_heads, longest, c.head_size)
        self.kv = torch.randn(shape)
        self.query = torch.randn(len(context), c.num_kv_heads, c.num_query_heads // c.num_kv_heads, c.head_size)
        visible = torch.arange(longest) < torch.tensor(context)[:, None]
        self.visible = None if visible.all() else visible[:, None, None]
        self.context = context
        tables = torch.arange(len(context), dtype=torch.int32)[:, None]  # of one block each, as long as the longest
        starts = torch.arange(len(context) + 1, dtype=torch.int32)
        self.ours = for_all_layers(_blocks_of(*self.kv[0]), tables, torch.tensor(context, dtype=torch.int32), starts)
        forms = (self._sdpa, self._products, self._one_by_one, self._ours)
        self.form = min(forms, key=lambda form: min(_time(lambda: self._all(form)) for _ in range(2)))

    def seconds(self) -> float:
        return _time(lambda: self._all(self.form))

    def _all(self, form: Callable) -> None:
        for key, value in self.kv:
            form(key, value)

    def _sdpa(self, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(self.query, key, value, attn_mask=self.visible)

    def _products(self, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        score = (self.query * self.query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
        if self.visible is not None:
            score = score.masked_fill_(~self.visible, float("-inf"))
        return score.softmax(-1) @ value

    def _one_by_one(self, key: torch.Tensor, value: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.scaled_dot_product_attention(self.query[r], key[r, :, :n], value[r, :, :n])
            for r, n in enumerate(self.context)
        ]

    def _ours(self, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return self.ours(self.query.flatten(1, 2), _blocks_of(key, value)).view(self.query.shape)


def _blocks_of(key: torch.Tensor, value: torch.Tensor) -> LayerKV:
    """[requests, KV heads, tokens, head size] each: a block a request."""
    return LayerKV(key.transpose(1, 2), value.transpose(1, 2))


class _Prefill:
    """Causal attention of each prompt; of the common part once, and then of each request's own tokens over both."""

    def __init__(self, model: LlamaModel, workload: Workload) -> None:
        c = model.config
        group = c.num_query_heads // c.num_kv_heads
        self.calls = []
        for r, length in enumerate(workload.lengths):
            queries = length if r == 0 or not workload.shared else length - workload.shared
            query = torch.randn(c.num_kv_heads, group, queries, c.head_size)
            kv = torch.randn(2, c.num_kv_heads, 1, length, c.head_size).expand(-1, -1, group, -1, -1)
            mask = None if queries == length else torch.ones(queries, length, dtype=torch.bool).tril(length - queries)
            self.calls.append((query, kv[0], kv[1], mask))
        self.layers = c.num_layers

    def seconds(self) -> float:
        def all_layers() -> None:
            for _ in range(self.layers):
                for query, key, value, mask in self.calls:
                    F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None)

        return _time(all_layers)


def _time(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
