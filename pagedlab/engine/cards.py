"""The pool that a card would have: the same sum as ``executor/pool_size.py``, for a card and a model that are not here.

Nothing of this is measured here. The card's memory is what CUDA reports for such a card, the weights follow from the
model's shape, the activation peak from that file's formula, and what else the card holds is assumed, see
``Held``. Source: vLLM v0.32.0 ``v1/worker/utils.py`` (``request_memory``) and ``v1/worker/gpu_worker.py``
(``determine_available_memory``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pagedlab.engine.config import EngineConfig
from pagedlab.errors import PagedlabError, is_real
from pagedlab.executor.pool_size import GIB, PoolBudget, activation_peak, block_bytes, machine_memory
from pagedlab.model.config import LlamaConfig

HERE = "this machine"
# GiB, as CUDA reports them (``total_memory``); the data sheets say 16, 24, 40, 80 and 141 GB. Drivers differ
# by a few tenths. Of the A100 the smaller one, as in the paper.
CARDS = {"T4": 14.6, "L4": 22.0, "A100": 39.4, "H100": 79.1, "H200": 139.8}


def _llama(name: str, hidden: int, mlp: int, layers: int, heads: int, kv: int, vocab: int, tied: bool) -> LlamaConfig:
    return LlamaConfig(vocab, hidden, mlp, layers, heads, kv, hidden // heads, 5e5, 1e-5, 8192, tied, name)


# From each model's config.json.
MODELS = {
    model.name: model
    for model in (
        _llama("Llama-3.1-8B", 4096, 14336, 32, 32, 8, 128256, False),
        _llama("Llama-3.2-1B", 2048, 8192, 16, 32, 8, 128256, True),
        _llama("SmolLM2-135M", 576, 1536, 30, 9, 3, 49152, True),
    )
}


@dataclass(frozen=True)
class Held:
    """What the card holds besides weights, activations and pool, in GiB. Assumed: it differs from driver to driver.

    context: CUDA's own memory for this process, there before the engine looks. graphs: captured CUDA graphs.
    others: other programs on the card."""

    context: float = 0.5
    graphs: float = 0.5
    others: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not is_real(value) or not 0 <= value < float("inf"):
                raise PagedlabError(f"{name} is {value!r}; it must be a number of GiB, 0 or more.")


@dataclass(frozen=True)
class CardModel:
    """A model by its shape, and the bytes of a number."""

    config: LlamaConfig
    bytes_per_element: int = 2  # of bfloat16, and of float16 on a T4

    @property
    def num_parameters(self) -> int:
        c = self.config
        heads = 2 * c.num_query_heads + 2 * c.num_kv_heads  # query and output, key and value
        layer = heads * c.head_size * c.hidden_size + 3 * c.hidden_size * c.intermediate_size + 2 * c.hidden_size
        embeddings = c.vocab_size * c.hidden_size * (1 if c.tie_word_embeddings else 2)
        return embeddings + c.num_layers * layer + c.hidden_size

    @property
    def num_bytes(self) -> int:
        return self.num_parameters * self.bytes_per_element


@dataclass(frozen=True)
class CardPlan:
    """What comes of the knobs on a card. ``outcome``: "fits", "no room" (for a pool), or "out of memory" (the engine
    asks for more than is free when it starts). ``budget.other`` is context and graphs."""

    card: str
    model: str
    budget: PoolBudget
    held: Held
    outcome: str
    summary: str
    block_size: int
    knobs: dict[str, Any] = field(default_factory=dict)

    @property
    def free_at_start(self) -> int:
        """Bytes that are free when the engine starts: the card without the context and other programs."""
        return max(0, self.budget.card - int((self.held.context + self.held.others) * GIB))

    @property
    def num_tokens(self) -> int:
        """How many tokens the pool can hold, the null block not counted."""
        return max(0, self.budget.num_blocks - 1) * self.block_size


def card_memory(card: str) -> int:
    """Bytes. Of this machine: its GPU's as the driver reports it, or the main memory where there is none."""
    if card == HERE:
        from pagedlab.executor.torch_executor import gpu_memory

        return gpu_memory() or machine_memory()
    if not isinstance(card, str) or card not in CARDS:
        raise PagedlabError(f"There is no card {card!r} here; there are: {', '.join([*CARDS, HERE])}.")
    return int(CARDS[card] * GIB)


def plan_card(
    card: str,
    model: str = "Llama-3.1-8B",
    *,
    gpu_memory_utilization: float = 0.92,
    block_size: int = 16,
    enable_prefix_caching: bool = True,
    max_num_seqs: int = 256,
    max_num_batched_tokens: int = 8192,
    held: Held | None = None,
) -> CardPlan:
    """The pool of ``model`` on ``card`` under these knobs. Raises PagedlabError for an unknown card or model, and for
    knobs that make no sense; that memory does not suffice is an outcome."""
    if not isinstance(model, str) or model not in MODELS:
        raise PagedlabError(f"There is no model {model!r} here; there are: {', '.join(MODELS)}.")
    knobs = {
        "gpu_memory_utilization": gpu_memory_utilization,
        "block_size": block_size,
        "enable_prefix_caching": enable_prefix_caching,
        "max_num_seqs": max_num_seqs,
    }
    shape = CardModel(MODELS[model])
    c, element = shape.config, shape.bytes_per_element
    config = EngineConfig(**knobs, max_num_batched_tokens=max_num_batched_tokens, max_model_len=c.max_model_len)
    held = Held() if held is None else held
    if not isinstance(held, Held):
        raise PagedlabError(f"held is {held!r}; give a pagedlab.engine.cards.Held(context=…, graphs=…, others=…).")
    total, bytes_per_block = card_memory(card), block_bytes(c, element, block_size)
    activations = activation_peak(c, element, config)
    other = int((held.context + held.graphs) * GIB)
    allowed = int(gpu_memory_utilization * total)
    left = allowed - shape.num_bytes - activations - other
    num_blocks = max(0, left) // bytes_per_block
    budget = PoolBudget(total, allowed, shape.num_bytes, activations, other, bytes_per_block, num_blocks, False)
    free = max(0, total - int((held.context + held.others) * GIB))
    if allowed > free:
        outcome = "out of memory"
        summary = (
            f"Out of memory: {gpu_memory_utilization:g} of {gib(total)} is {gib(allowed)}, and {gib(free)} are free at "
            "the start. The engine does not come up."
        )
    elif num_blocks < 2:
        outcome = "no room"
        needed = shape.num_bytes + activations + other
        summary = (
            f"No room for a pool: {gpu_memory_utilization:g} of {gib(total)} is {gib(allowed)}, and weights, "
            f"activations and the rest take {gib(needed)}."
        )
    else:
        outcome, summary = "fits", f"{gib(budget.pool)} for the pool: {num_blocks:,} blocks of {block_size} tokens."
    return CardPlan(card, model, budget, held, outcome, summary, block_size, knobs)


def gib(num_bytes: float) -> str:
    return f"{num_bytes / GIB:.1f} GiB"
