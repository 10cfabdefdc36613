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
