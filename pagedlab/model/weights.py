"""From a name to a model that is ready to run, with its tokenizer."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from pagedlab.errors import PagedlabError
from pagedlab.model.config import LlamaConfig
from pagedlab.model.download import damage, ensure_model_file, model_file_path
from pagedlab.model.llama import LlamaModel
from pagedlab.model.split import ALONE, Group, check_size
from pagedlab.model.tokenizer import Tokenizer, byte_tokenizer

__all__ = ["ensure_model_file", "load_model"]

SMOLLM2 = "SmolLM2-135M-Instruct"
SMOLLM2_NAMES = ("smollm2", SMOLLM2.lower(), f"huggingfacetb/{SMOLLM2}".lower())
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def load_model(
    name: str = "smollm2",
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    group: Group = ALONE,
) -> tuple[LlamaModel, Tokenizer]:
    """The model of that name on that device in that dtype, and its tokenizer.

    name: "smollm2" (SmolLM2-135M-Instruct; downloaded once), "tiny-random" (no file; its weights follow from `seed`),
    "tiny-random-hybrid" (the like, where every second layer looks back at 16 tokens only),
    "smollm2-random" (the like in SmolLM2's sizes, for measurements), a folder in Hugging Face's layout with a model of
    Llama's family, or a name on the Hugging Face hub.
    dtype: float32, float16 or bfloat16. group: of the ranks that hold the model together; this one gets its part only.
    PagedlabError says what is wrong with a name, a file or a folder, and for a model that cannot be split so.
    """
    device = checked_device(device)
    if dtype not in DTYPES:
        raise PagedlabError(f"dtype {dtype} is not possible: use torch.float32, torch.float16 or torch.bfloat16")
    source, config = source_of(name, seed)
    check_size(config, group.split.size)
    try:
        model = LlamaModel(config, device, dtype, group)
    except (RuntimeError, MemoryError) as error:
        raise PagedlabError(f"there is no memory for a model of the sizes of {config.name} ({error})") from error
    fill(model, source.tensors(), config)
    return model, source.tokenizer()


def source_of(name: str, seed: int = 0) -> tuple[Any, LlamaConfig]:
    """Where the model of that name is to be had, with `tensors()` and `tokenizer()`, and its sizes; no weight is read
    yet. Fetches the files that are not here. PagedlabError as of `load_model`."""
    if name in RANDOM:
        source = RandomModel(LlamaConfig(**RANDOM[name]), seed)
        return source, source.config
    if str(name).lower() in SMOLLM2_NAMES:
        source, name = _smollm2(), SMOLLM2
    else:
        from pagedlab.model.hf_folder import HFFolder

        folder = _folder(str(name))
        source, name = HFFolder(folder), Path(name).name
    return source, source.config(name)


def checked_device(device: str | torch.device) -> torch.device:
    """The device of that name. PagedlabError for one that is not here, and for a kind that torch runs this on nowhere:
    there are a CPU, CUDA and MPS (Apple's GPUs, which nobody has tried yet)."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        found = None
    if found is None or found.type not in ("cpu", "cuda", "mps"):
        raise PagedlabError(f"Unknown device {device!r}; allowed are cpu, cuda, cuda:0 and the like, and mps.")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise PagedlabError(
            f"device is {device!r}, but there is no CUDA device here: use 'cpu'. `pagedlab doctor` says more."
        )
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise PagedlabError(f"device is {device!r}, and there is none after cuda:{torch.cuda.device_count() - 1}.")
    if found.type == "mps" and not torch.backends.mps.is_available():
        raise PagedlabError(f"device is {device!r}, but torch finds none of Apple's GPUs here: use 'cpu'.")
    return found


def _smollm2():
    path = model_file_path()
    if not os.path.exists(path):  # Path.exists raises where it may not look
        ensure_model_file()
    elif wrong := damage(path):
        raise PagedlabError(f"the model file {path} is damaged ({wrong}): run `pagedlab fetch-model` to fetch it anew")
    from pagedlab.model.gguf_file import GGUFFile

    return GGUFFile(path)


def _folder(name: str) -> Path:
    folder = Path(os.path.expanduser(name))
    if name and os.path.isdir(folder):
        return folder
    if name and os.path.exists(folder):
        raise PagedlabError(f"{name} is a file: give the folder with config.json, *.safetensors and tokenizer.json")
    if HUB_NAME.fullmatch(name):
        from pagedlab.model.hub import hub_folder

        return hub_folder(name)
    raise PagedlabError(
        f"unknown model {name[:200]!r}: allowed are 'smollm2', 'tiny-random', an existing folder in Hugging Face's "
        "layout, or owner/name on the Hugging Face hub"
    )


def weight_slots(model: LlamaModel) -> dict[str, torch.Tensor]:
    """Where each weight of a checkpoint goes: Hugging Face's name -> a view of the model's (joined) matrix."""
    config = model.config
    slots = {"model.embed_tokens.weight": model.embedding, "model.norm.weight": model.norm}
    if not config.tie_word_embeddings:
        slots["lm_head.weight"] = model.head
    heads = (config.num_query_heads, config.num_kv_heads, config.num_kv_heads)
    for layer in model.layers:
        at = f"model.layers.{layer.index}."
        slots[at + "input_layernorm.weight"] = layer.attention_norm
        slots[at + "post_attention_layernorm.weight"] = layer.mlp_norm
        slots[at + "self_attn.o_proj.weight"] = layer.output
        slots[at + "mlp.down_proj.weight"] = layer.down
        slots[at + "mlp.gate_proj.weight"], slots[at + "mlp.up_proj.weight"] = layer.gate_up.chunk(2)
        rows = [n * config.head_size for n in heads]
        for letter, slot in zip("qkv", layer.qkv.split(rows), strict=True):
            slots[f"{at}self_attn.{letter}_proj.weight"] = slot
        if layer.qkv_bias is not None:
            for letter, slot in zip("qkv", layer.qkv_bias.split(rows), strict=True):
                slots[f"{at}self_attn.{letter}_proj.bias"] = slot
    return slots


def whole_shapes(config: LlamaConfig) -> dict[str, torch.Size]:
    """Of each weight of a checkpoint."""
    return {name: slot.shape for name, slot in weight_slots(LlamaModel(config, "meta")).items()}


def fill(model: LlamaModel, tensors: Iterable[tuple[str, torch.Tensor]], whole: LlamaConfig | None = None) -> None:
    """Copy each weight, or the part of it that this rank has, to its slot. whole: the sizes of the whole model, where
    `model` is a part of it. PagedlabError where a weight is missing, unknown or of another shape."""
    whole = whole or model.config
    slots, shapes = weight_slots(model), whole_shapes(whole)
    for name, values in tensors:
        if name.endswith(".rotary_emb.inv_freq") or (name == "lm_head.weight" and whole.tie_word_embeddings):
            continue  # both follow from what we have
        slot = slots.pop(name, None)
        if name.endswith(".sinks"):
            raise PagedlabError(
                f"{whole.name} has attention sinks, which llama.py does not have: take a model without them"
            )
        if slot is None:
            raise PagedlabError(f"the weight {name!r} has no place in {whole.name}: this is no plain Llama")
        if shapes[name] != values.shape:
            raise PagedlabError(
                f"the weight {name!r} has shape {list(values.shape)}, but the sizes of {whole.name} ask for "
                f"{list(shapes[name])}: weights and configuration do not belong together"
            )
        part = model.group.split.part(name, values, whole)
        slot[: len(part)] = part
        slot[len(part) :] = 0  # no token's: see `Split.vocabulary`
    if slots:
        raise PagedlabError(
            f"{len(slots)} weights of {whole.name} are missing, {next(iter(slots))!r} among them: "
            "get the model's files again"
        )


# Models that say nothing sensible, but whose next token depends on everything before it.
RANDOM = {
    "tiny-random": dict(
        name="tiny-random",
        vocab_size=259,
        hidden_size=64,
        intermediate_size=128,
        num_layers=3,
        num_query_heads=4,
        num_kv_heads=2,
        head_size=16,
        rope_theta=10000.0,
        rms_norm_eps=1e-5,
        max_model_len=512,
        tie_word_embeddings=False,  # tied random weights of this size would only repeat the last token
    ),
    "tiny-random-hybrid": dict(
        name="tiny-random-hybrid",
        vocab_size=259,
        hidden_size=64,
        intermediate_size=128,
        num_layers=4,
        num_query_heads=4,
        num_kv_heads=2,
        head_size=16,
        rope_theta=10000.0,
        rms_norm_eps=1e-5,
        max_model_len=512,
        tie_word_embeddings=False,
        windows=(None, 16) * 2,
    ),
    "smollm2-random": dict(
        name="SmolLM2-135M's sizes, random weights",
        vocab_size=49152,  # of which the tokenizer knows the first 259
        hidden_size=576,
        intermediate_size=1536,
        num_layers=30,
        num_query_heads=9,
        num_kv_heads=3,
        head_size=64,
        rope_theta=100000.0,
        rms_norm_eps=1e-5,
        max_model_len=8192,
        tie_word_embeddings=True,
    ),
}


class RandomModel:
    """Weights of some sizes that follow from `seed`, made one at a time."""

    def __init__(self, config: LlamaConfig, seed: int) -> None:
        self.config, self.seed = config, seed

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        generator = torch.Generator().manual_seed(self.seed)
        for name, shape in whole_shapes(self.config).items():
            if len(shape) == 1:
                yield name, torch.ones(shape)
            else:  # keeps the size of what passes through, so that no layer drowns another
                yield name, torch.randn(shape, generator=generator) * shape[1] ** -0.5

    def tokenizer(self) -> Tokenizer:
        return byte_tokenizer()
