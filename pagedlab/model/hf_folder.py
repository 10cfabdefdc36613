"""A Llama from a folder in Hugging Face's layout: config.json, *.safetensors, tokenizer.json.

Layout: what `save_pretrained` of the transformers library writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import tokenizers
import torch
from safetensors import SafetensorError, safe_open

from pagedlab.errors import PagedlabError
from pagedlab.model.config import LlamaConfig
from pagedlab.model.settings import MOST_LAYERS, Settings
from pagedlab.model.tokenizer import Tokenizer

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
INDEX = "model.safetensors.index.json"
# Architecture -> its sliding window where config.json has no such line (`null` is none).
ARCHITECTURES = {"LlamaForCausalLM": None, "MistralForCausalLM": 4096, "MinistralForCausalLM": 4096}
ARCHITECTURES |= {"Qwen2ForCausalLM": 4096}
LAYER_TYPES = ("full_attention", "sliding_attention")
# How positions may be scaled, and by which numbers.
ROPE_TYPES = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}

class HFFolder:
    """A local folder that holds a model of Llama's family."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._config = self._json("config.json", required=True)

    def _json(self, name: str, required: bool = False) -> dict:
        text = self._text(name)
        if text is None and required:
            raise PagedlabError(
                f"{self.folder} has no {name}: give a folder with config.json, *.safetensors and tokenizer.json"
            )
        path = self.folder / name
        try:
            content = json.loads(text or "{}")
        except (ValueError, RecursionError) as error:
            raise PagedlabError(f"{path} cannot be read as JSON ({error}): download the folder again") from error
        if not isinstance(content, dict):
            raise PagedlabError(f"{path} holds no JSON object: download the folder again")
        return content

    def _text(self, name: str) -> str | None:
        """The file's text; None where there is no such file."""
        path = self.folder / name
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise PagedlabError(f"{path} cannot be read ({error}): download the folder again") from error

    def _refuse(self, what: str, allowed: str) -> PagedlabError:
        return PagedlabError(f"the model in {self.folder} {what}; {allowed} can be run")

    def config(self, name: str) -> LlamaConfig:
        """The model's sizes. PagedlabError for an architecture or an option that the code in llama.py does not have,
        and for a value that is missing or makes no sense."""
        get = Settings(self._config, f"config.json in {self.folder}")
        architecture = (get.names("architectures") or ["(none named)"])[0]
        allowed = "only " + ", ".join(ARCHITECTURES)
        if get.value("kv_lora_rank") is not None:
            raise self._refuse("keeps K and V in a compressed form (MLA)", allowed)
        if architecture == "GptOssForCausalLM":
            raise self._refuse(f"is a {architecture}, which has attention sinks", allowed)
        if architecture not in ARCHITECTURES:
            raise self._refuse(f"is a {architecture}", allowed)
        if self._config.get("quantization_config"):
            raise self._refuse("is quantized", "only fp32, fp16 and bf16 weights")
        if get.value("hidden_act", "silu") != "silu":
            raise self._refuse(f"has the activation {self._config['hidden_act']!r}", "only 'silu'")
        biases = get.flag("attention_bias") | get.flag("mlp_bias")
        if architecture != "Qwen2ForCausalLM" and biases:
            raise self._refuse("has biases in its attention or its feed-forward", "only models without them")
        hidden_size, heads = get.size("hidden_size"), get.size("num_attention_heads")
        kv_heads = get.size("num_key_value_heads", heads)
        if heads % kv_heads:
            raise self._refuse(f"shares {kv_heads} KV heads among {heads}", "only models that share them evenly")
        head_size = get.size("head_dim", max(1, hidden_size // heads))
        if head_size % 2 or ("head_dim" not in self._config and hidden_size % heads):
            raise self._refuse(
                f"has a hidden size of {hidden_size}, {heads} heads and heads of {head_size}",
                "only models whose heads have an even size",
            )
        rope = self._rope(get)
        return LlamaConfig(
            name=name,
            vocab_size=get.size("vocab_size"),
            hidden_size=hidden_size,
            intermediate_size=get.size("intermediate_size"),
            num_layers=get.size("num_hidden_layers", most=MOST_LAYERS),
            num_query_heads=heads,
            num_kv_heads=kv_heads,
            head_size=head_size,
            rope_theta=rope.pop("rope_theta"),
            rms_norm_eps=get.number("rms_norm_eps", 1e-6),
            max_model_len=get.size("max_position_embeddings"),
            tie_word_embeddings=get.flag("tie_word_embeddings"),
            qkv_bias=architecture == "Qwen2ForCausalLM",
            rope_scaling=None if rope["rope_type"] == "default" else rope,
            windows=self._windows(get, architecture),
        )

    def _rope(self, get: Settings) -> dict:
        """Rotary embedding: transformers 5 writes `rope_parameters`, before that `rope_scaling` and `rope_theta`."""
        of_rope = get.part("rope_parameters") or get.part("rope_scaling") or Settings({}, get.where)
        kind = of_rope.value("rope_type") or of_rope.value("type") or "default"
        allowed = "only " + ", ".join(ROPE_TYPES)
        if not isinstance(kind, str) or kind not in ROPE_TYPES:
            raise self._refuse(f"scales its positions by {kind!r}", allowed)
        by_layer = any(isinstance(value, dict) for value in of_rope.raw.values())
        if by_layer or (kind == "default" and of_rope.value("factor", 1) != 1):
            raise self._refuse("scales its positions, but does not say how for all layers", allowed)
        if of_rope.number("partial_rotary_factor", get.number("partial_rotary_factor", 1)) != 1:
            raise self._refuse("rotates only a part of each head", "only models that rotate whole heads")
        rope = {name: of_rope.number(name) for name in ROPE_TYPES[kind]}
        if kind == "llama3" and rope["high_freq_factor"] <= rope["low_freq_factor"]:
            raise self._refuse("has no high_freq_factor above its low_freq_factor", "only models that have")
        theta = of_rope.number("rope_theta", get.number("rope_theta", 10000.0))
        return rope | {"rope_type": kind, "rope_theta": theta}

    def _windows(self, get: Settings, architecture: str) -> tuple[int | None, ...]:
        """How far each layer looks back. `layer_types` names the layers that have the window; without it all have it,
        of a Qwen2 those from `max_window_layers` on."""
        num_layers = get.size("num_hidden_layers", most=MOST_LAYERS)
        types = get.names("layer_types") or None
        named = "sliding_window" in self._config
        window = get.size("sliding_window") if get.value("sliding_window") is not None else None
        window = window if named else ARCHITECTURES[architecture]
        first = 0
        if architecture == "Qwen2ForCausalLM":
            window = window if get.flag("use_sliding_window") else None
            first = get.size("max_window_layers", 28, least=0)
        if types is None:
            types = [LAYER_TYPES[window is not None and layer >= first] for layer in range(num_layers)]
        if unknown := next((kind for kind in types if kind not in LAYER_TYPES), None):
            raise self._refuse(f"has a layer of the type {unknown!r}", "only " + " and ".join(LAYER_TYPES))
        if len(types) != num_layers:
            raise self._refuse(f"has {num_layers} layers and {len(types)} layer_types", "only models with one for each")
        if window is None and LAYER_TYPES[True] in types:
            raise self._refuse("has layers with a sliding window, and no sliding_window", "only models that give it")
        windows = tuple(window if kind == LAYER_TYPES[True] else None for kind in types)
        return windows if any(windows) else ()

    def tokenizer(self) -> Tokenizer:
        """The tokenizer, with the end-of-sequence ids and the chat template that the folder names."""
        text = self._text("tokenizer.json")
        path = self.folder / "tokenizer.json"
        if text is None:
            raise PagedlabError(f"{self.folder} has no tokenizer.json: save the tokenizer in its fast form there")
        try:
            backend = tokenizers.Tokenizer.from_str(text)
        except BaseException as error:  # the library raises plain Exception, and panics where a file contradicts itself
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            raise PagedlabError(f"{path} cannot be read ({error}): download the folder again") from error
        raw = self._json("tokenizer_config.json")
        if "added_tokens_decoder" not in raw:  # older folders name the special tokens in a file of their own
            raw = raw | self._json("special_tokens_map.json")
        named = Settings(raw, f"tokenizer_config.json in {self.folder}")
        special = {name: token for name in named.raw if name.endswith("_token") and (token := named.token(name))}
        ids = [
            Settings(raw, f"{name} in {self.folder}").ids("eos_token_id")
            for name, raw in (
                ("generation_config.json", self._json("generation_config.json")),
                ("config.json", self._config),
            )
        ]
        named_id = backend.token_to_id(special.get("eos_token", ""))
        eos_token_ids = next((found for found in ids if found is not None), [] if named_id is None else [named_id])
        return Tokenizer(
            backend, eos_token_ids=eos_token_ids, chat_template=self._chat_template(named), special_tokens=special
        )

    def _chat_template(self, named: Settings) -> str | None:
        template = self._text("chat_template.jinja")
        if template is None:
            template = named.value("chat_template")
        if isinstance(template, list):  # several by name
            by_name = [entry for entry in template if isinstance(entry, dict)]
            template = next((entry.get("template") for entry in by_name if entry.get("name") == "default"), None)
        if template is not None and not isinstance(template, str):
            raise named.wrong("chat_template", "text")
        return template

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Each weight as (name, values in the dtype of the file), one at a time."""
        for path in self._weight_files():
            try:
                with safe_open(path, framework="pt") as file:
                    for name in file.keys():
                        values = file.get_tensor(name)
                        if values.dtype not in DTYPES:
                            raise self._refuse(f"stores {name!r} as {values.dtype}", "only fp32, fp16 and bf16 weights")
                        yield name, values
            except (SafetensorError, OSError, AttributeError, TypeError) as error:
                raise PagedlabError(
                    f"{path} is missing, truncated or damaged ({error}): download the folder again"
                ) from error

    def _weight_files(self) -> list[Path]:
        index = Settings(self._json(INDEX), f"{INDEX} in {self.folder}").part("weight_map")
        if index and not all(isinstance(file, str) for file in index.raw.values()):
            raise PagedlabError(f"{INDEX} in {self.folder} names files that are no text: download the folder again")
        files = [self.folder / name for name in sorted(set(index.raw.values()))] if index else []
        for pattern in ("model.safetensors", "model*.safetensors", "*.safetensors"):  # beside them may lie other forms
            files = files or sorted(self.folder.glob(pattern))
        if not files:
            raise PagedlabError(f"{self.folder} has no *.safetensors file: weights in other formats are not read")
        return files
