"""A model as a folder in Hugging Face's layout, for other engines to load: the very weights that ours runs with.

What is written is what ``hf_folder.py`` reads: config.json, model.safetensors, tokenizer.json, tokenizer_config.json.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from pagedlab.cache import cache_folder
from pagedlab.errors import PagedlabError
from pagedlab.model.config import LlamaConfig
from pagedlab.model.hf_folder import LAYER_TYPES
from pagedlab.model.llama import LlamaModel
from pagedlab.model.tokenizer import Tokenizer
from pagedlab.model.weights import load_model, weight_slots


def exported(name: str) -> Path:
    """The folder of the model ``name`` (one that is no folder itself) in fp32, in pagedlab's cache; written when first
    asked for (half a gigabyte for SmolLM2). PagedlabError where that cannot be."""
    folder = cache_folder() / f"{name.replace('/', '--')}-fp32"
    if not folder.exists():
        model, tokenizer = load_model(name)
        partial = folder.with_name(f"{folder.name}.{os.getpid()}")  # the folder is either absent or whole
        try:
            save_hf_folder(model, tokenizer, partial)
            with contextlib.suppress(OSError):  # somebody else was quicker
                partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def save_hf_folder(model: LlamaModel, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the model and its tokenizer into ``folder``, which is made where it is not there. PagedlabError where that
    cannot be written."""
    eos = sorted(tokenizer.eos_token_ids)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": tokenizer.token(eos[0]),
        "chat_template": tokenizer.chat_template,
        "clean_up_tokenization_spaces": False,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "config.json", _config(model.config, str(model.dtype).removeprefix("torch."), eos))
        _write(folder / "generation_config.json", {"eos_token_id": eos})
        _write(folder / "tokenizer_config.json", settings | tokenizer.special_tokens)
        (folder / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
        weights = {name: slot.cpu().contiguous() for name, slot in weight_slots(model).items()}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    except OSError as error:
        raise PagedlabError(f"{folder} cannot be written: {error.strerror}. Name another folder.") from None


def _config(config: LlamaConfig, dtype: str, eos: list[int]) -> dict[str, Any]:
    # The family that has what the model has; Ministral is a Llama in which some layers have a window.
    family = "Qwen2" if config.qkv_bias else "Ministral" if config.has_groups else "Llama"
    return {
        "architectures": [f"{family}ForCausalLM"],
        "model_type": family.lower(),
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_query_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_size,
        "hidden_act": "silu",
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "rope_scaling": config.rope_scaling,
        "max_position_embeddings": config.max_model_len,
        "tie_word_embeddings": config.tie_word_embeddings,
        "dtype": dtype,
        "eos_token_id": eos,
    } | _windows(config)


def _windows(config: LlamaConfig) -> dict[str, Any]:
    """A configuration has room for one length."""
    if not config.has_groups:
        return {}
    length, *others = {window for window in config.windows if window is not None}
    if others:
        raise PagedlabError(f"{config.name} has windows of several lengths, and config.json can name one only.")
    types = [LAYER_TYPES[window is not None] for window in config.windows]
    return {"sliding_window": length, "use_sliding_window": True, "layer_types": types}


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
