"""The shape of a model: numbers alone, which can be read without torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LlamaConfig:
    """The shape of a model. Sizes count elements; `max_model_len` counts tokens."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_query_heads: int
    num_kv_heads: int
    head_size: int
    rope_theta: float
    rms_norm_eps: float
    max_model_len: int
    tie_word_embeddings: bool
    name: str
    qkv_bias: bool = False
    rope_scaling: dict | None = None  # as in a Hugging Face config.json: {"rope_type": "llama3" or "linear", ...}
    # How many tokens each layer looks at, the token itself included; None: at all before it. Empty: so do all layers.
    windows: tuple[int | None, ...] = ()

    @property
    def layer_groups(self) -> tuple["LayerGroup", ...]:
        """Layers of one window go together, and all groups have room for as many layers: so a block of the pool has one
        size, and any group can take it. Their order is that of their first layers.

        The rarest window says how many layers a group has, unless the others have only a few more; where they do not
        come out even, layers are dealt out over the groups in turn: some have fewer, and a part of their blocks stays
        empty. Source: vLLM ``v1/core/kv_cache_utils.py``, ``_get_kv_cache_groups_uniform_page_size``.
        """
        layers: dict[int | None, list[int]] = {}
        for layer, window in enumerate(self.windows or (None,) * self.num_layers):
            layers.setdefault(window, []).append(layer)
        counts = [len(alike) for alike in layers.values()]
        size = max(counts) if max(counts) < 1.5 * min(counts) else min(counts)
        groups = []
        for window, alike in layers.items():
            several = -(-len(alike) // size)
            groups += [LayerGroup(window, tuple(alike[i::several])) for i in range(several)]
        return tuple(groups)

    @property
    def num_layers_of_a_block(self) -> int:
        """How many layers' K and V a block of the pool holds: those of one group."""
        return max(len(group.layers) for group in self.layer_groups)

    @property
    def has_groups(self) -> bool:
        """Is there more to it than one table, for layers that all look at everything?"""
        return any(window is not None for window in self.windows)


@dataclass(frozen=True)
class LayerGroup:
    """``layers`` that look back at ``window`` tokens (None: at all) and share one block table. Layer ``layers[i]`` has
    place ``i`` in each of the group's blocks."""

    window: int | None
    layers: tuple[int, ...]
