"""Hugging Face transformers on our model's own weights: the other side of `pagedlab bench engine`.

The weights are not read again and not copied: its parameters are views of ours.
"""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

import torch

from pagedlab.errors import PagedlabError
from pagedlab.model.llama import LlamaModel
from pagedlab.model.weights import weight_slots


def library() -> Any:
    """The package transformers. Raises PagedlabError where it is not installed."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import transformers
    except ImportError:
        raise PagedlabError(
            "transformers is not installed, so there is nothing to compare with: pip install transformers."
        ) from None
    return transformers


class Transformers:
    """``padded(prompts, new)`` and ``continuous(prompts, new)`` each return one list of new tokens per prompt."""

    def __init__(self, model: LlamaModel) -> None:
        transformers = library()
        transformers.utils.logging.set_verbosity_error()
        logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module="transformers")
        self.version = transformers.__version__
        self._library = transformers
        # Two, because each kind of batch sets the attention that it wants; they have one set of weights.
        self._padded, self._continuous = _llama(transformers, model), _llama(transformers, model)

    @torch.inference_mode()
    def padded(self, prompts: list[list[int]], new: int) -> list[list[int]]:
        """`generate`: every prompt is padded on its left to the longest one's length."""
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
        result = self._padded.generate(input_ids=ids, attention_mask=mask, generation_config=self._config(new))
        return result[:, longest:].tolist()

    def continuous(self, prompts: list[list[int]], new: int) -> list[list[int]]:
        """`generate_batch`: continuous batching over a paged cache, with prefix sharing on.

        With its own defaults it fills 60 % of the machine's memory first, and takes twice as long; a step of many
        tokens is slow too, because its attention on a CPU is over all of a step's tokens at once. These sizes are the
        quickest of those tried (pages of 16, 32 and 256 tokens, steps of 256, 512, 1,024 and of all).
        """
        page = 32
        needed = sum(-(-(len(p) + new) // page) for p in prompts) + 8
        settings = self._library.ContinuousBatchingConfig(
            page_size=page, num_blocks=needed, max_batch_tokens=max(512, len(prompts))
        )
        outputs = self._continuous.generate_batch(
            inputs=prompts, generation_config=self._config(new), continuous_batching_config=settings
        )
        return [output.generated_tokens for output in outputs.values()]

    def _config(self, new: int) -> Any:
        return self._library.GenerationConfig(
            max_new_tokens=new, do_sample=False, use_cache=True, eos_token_id=None, pad_token_id=0
        )


def _llama(transformers: Any, model: LlamaModel) -> Any:
    c = model.config
    config = transformers.LlamaConfig(
        vocab_size=c.vocab_size,
        hidden_size=c.hidden_size,
        intermediate_size=c.intermediate_size,
        num_hidden_layers=c.num_layers,
        num_attention_heads=c.num_query_heads,
        num_key_value_heads=c.num_kv_heads,
        head_dim=c.head_size,
        max_position_embeddings=c.max_model_len,
        rms_norm_eps=c.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": c.rope_theta},
        tie_word_embeddings=c.tie_word_embeddings,
        attn_implementation="sdpa",
    )
    theirs = transformers.LlamaForCausalLM(config)
    weights = {name: slot.detach() for name, slot in weight_slots(model).items()}
    if c.tie_word_embeddings:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    theirs.load_state_dict(weights, assign=True)
    return theirs.eval()
