"""A Llama from a folder in Hugging Face's layout: config.json, *.safetensors, tokenizer.json.

Layout: what `save_pretrained` of the transformers library writes.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import tokenizers
import torch
from safetensors import SafetensorError, safe_open

from pagedlab.errors import PagedlabError
from pagedlab.model.llama import LlamaConfig
from pagedlab.model.tokenizer import Tokenizer

ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM")
ROPE_TYPES = ("default", "linear", "llama3")


class HFFolder:
    """A local folder that holds a model of Llama's family."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._config = self._json("config.json", required=True)

    def _json(self, name: str, required: bool = False) -> dict:
        path = self.folder / name
        if not path.exists():
            if required:
                raise PagedlabError(
                    f"{self.folder} has no {name}: give a folder with config.json, *.safetensors and tokenizer.json"
                )
            return {}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PagedlabError(f"{path} cannot be read as JSON ({error}): download the folder again") from error
        if not isinstance(content, dict):
            raise PagedlabError(f"{path} holds no JSON object: download the folder again")
        return content

    def _refuse(self, what: str, allowed: str) -> PagedlabError:
        return PagedlabError(f"the model in {self.folder} {what}; {allowed} can be run")

    def config(self, name: str) -> LlamaConfig:
        """The model's sizes. PagedlabError for an architecture or an option that the code in llama.py does not have."""
        raw = self._config
        architecture = (raw.get("architectures") or ["(none named)"])[0]
        if architecture not in ARCHITECTURES:
            raise self._refuse(f"is a {architecture}", "only " + ", ".join(ARCHITECTURES))
        if raw.get("quantization_config"):
            raise self._refuse("is quantized", "only fp32, fp16 and bf16 weights")
        if raw.get("hidden_act", "silu") != "silu":
            raise self._refuse(f"has the activation {raw['hidden_act']!r}", "only 'silu'")
        if architecture != "Qwen2ForCausalLM" and (raw.get("attention_bias") or raw.get("mlp_bias")):
            raise self._refuse("has biases in its attention or its feed-forward", "only models without them")
        try:
            heads = raw["num_attention_heads"]
            rope = self._rope()
            return LlamaConfig(
                name=name,
                vocab_size=raw["vocab_size"],
                hidden_size=raw["hidden_size"],
                intermediate_size=raw["intermediate_size"],
                num_layers=raw["num_hidden_layers"],
                num_query_heads=heads,
                num_kv_heads=raw.get("num_key_value_heads") or heads,
                head_size=raw.get("head_dim") or raw["hidden_size"] // heads,
                rope_theta=rope.pop("rope_theta"),
                rms_norm_eps=raw.get("rms_norm_eps", 1e-6),
                max_model_len=self._max_model_len(architecture),
                tie_word_embeddings=raw.get("tie_word_embeddings", False),
                qkv_bias=architecture == "Qwen2ForCausalLM",
                rope_scaling=None if rope["rope_type"] == "default" else rope,
            )
        except KeyError as error:
            raise PagedlabError(f"config.json in {self.folder} lacks {error}: download the folder again") from error

    def _rope(self) -> dict:
        """Rotary embedding: transformers 5 writes `rope_parameters`, before that `rope_scaling` and `rope_theta`."""
        raw = self._config
        rope = dict(raw.get("rope_parameters") or raw.get("rope_scaling") or {})
        rope["rope_type"] = rope.get("rope_type") or rope.pop("type", None) or "default"
        rope.setdefault("rope_theta", raw.get("rope_theta", 10000.0))
        if rope["rope_type"] not in ROPE_TYPES:
            raise self._refuse(f"scales its positions by {rope['rope_type']!r}", "only " + ", ".join(ROPE_TYPES))
        if rope.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1)) != 1:
            raise self._refuse("rotates only a part of each head", "only models that rotate whole heads")
        return rope

    def _max_model_len(self, architecture: str) -> int:
        """Tokens of context. Up to the length of a sliding window, attention in the window is attention to all:
        a model with one runs exactly, over that many tokens.
        """
        window = self._config.get("sliding_window")
        if architecture == "Qwen2ForCausalLM" and not self._config.get("use_sliding_window"):
            window = None
        limit = self._config["max_position_embeddings"]
        return min(limit, window) if window else limit

    def tokenizer(self) -> Tokenizer:
        """The tokenizer, with the end-of-sequence ids and the chat template that the folder names."""
        path = self.folder / "tokenizer.json"
        if not path.exists():
            raise PagedlabError(f"{self.folder} has no tokenizer.json: save the tokenizer in its fast form there")
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise PagedlabError(f"{path} cannot be read ({error}): download the folder again") from error
        named = self._json("tokenizer_config.json")
        special = {}
        for key in ("bos_token", "eos_token", "unk_token", "pad_token"):
            token = named.get(key)
            if token := token.get("content") if isinstance(token, dict) else token:
                special[key] = token
        eos = self._json("generation_config.json").get("eos_token_id", self._config.get("eos_token_id"))
        if eos is None:
            eos = backend.token_to_id(special.get("eos_token", ""))
        eos_token_ids = eos if isinstance(eos, list) else [] if eos is None else [eos]
        return Tokenizer(
            backend, eos_token_ids=eos_token_ids, chat_template=self._chat_template(named), special_tokens=special
        )

    def _chat_template(self, named: dict) -> str | None:
        path = self.folder / "chat_template.jinja"
        if path.exists():
            return path.read_text(encoding="utf-8")
        template = named.get("chat_template")
        if isinstance(template, list):  # several by name
            template = {entry["name"]: entry["template"] for entry in template}.get("default")
        return template

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Each weight as (name, values in the dtype of the file), one at a time."""
        for path in self._weight_files():
            try:
                with safe_open(path, framework="pt") as file:
                    for name in file.keys():
                        yield name, file.get_tensor(name)
            except (SafetensorError, OSError) as error:
                raise PagedlabError(
                    f"{path} is missing, truncated or damaged ({error}): download the folder again"
                ) from error

    def _weight_files(self) -> list[Path]:
        index = self._json("model.safetensors.index.json").get("weight_map")
        files = [self.folder / name for name in sorted(set(index.values()))] if index else []
        for pattern in ("model.safetensors", "model*.safetensors", "*.safetensors"):  # beside them may lie other forms
            files = files or sorted(self.folder.glob(pattern))
        if not files:
            raise PagedlabError(f"{self.folder} has no *.safetensors file: weights in other formats are not read")
        return files
