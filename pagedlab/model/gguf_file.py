"""A Llama from a GGUF file: llama.cpp's format, in which one file carries weights, sizes and tokenizer.

Format: ggml's gguf.md. Read with the `gguf` library.
"""

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf.quants import dequantize

from pagedlab.errors import PagedlabError
from pagedlab.model.config import LlamaConfig
from pagedlab.model.tokenizer import Tokenizer, byte_level_bpe

HF_NAME = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}


class QuickReader(gguf.GGUFReader):
    """GGUFReader, ten times quicker on the 150,000 entries of a tokenizer, with the same fields as a result.

    The library slices the memory map three times for each entry, and slicing a memory map is slow. Here an array of
    strings is walked over plain bytes, and an array of numbers is taken whole.
    """

    def _get_field_parts(self, orig_offs, raw_type):
        if raw_type != gguf.GGUFValueType.ARRAY or self.byte_order != "I":
            return super()._get_field_parts(orig_offs, raw_type)
        data = np.asarray(self.data)
        item_type = data[orig_offs : orig_offs + 4].view(np.uint32)
        count = data[orig_offs + 4 : orig_offs + 12].view(np.uint64)
        kind = gguf.GGUFValueType(item_type[0])
        begin = end = orig_offs + 12
        parts = [item_type, count]
        if kind == gguf.GGUFValueType.STRING:
            raw = memoryview(data)
            for _ in range(int(count[0])):
                begin = end + 8
                length = raw[end:begin]
                end = begin + int.from_bytes(length, "little")
                parts += (length, raw[begin:end])
            return end - orig_offs, parts, list(range(3, len(parts), 2)), [gguf.GGUFValueType.ARRAY, kind]
        if kind not in self.gguf_scalar_to_np:
            return super()._get_field_parts(orig_offs, raw_type)
        scalar = np.dtype(self.gguf_scalar_to_np[kind])
        end = begin + int(count[0]) * scalar.itemsize
        parts.append(data[begin:end].view(scalar))
        return end - orig_offs, parts, [2], [gguf.GGUFValueType.ARRAY, kind]


class GGUFFile:
    """A GGUF file of a Llama, open for reading."""

    def __init__(self, path: Path):
        self._reader = QuickReader(path)
        architecture = self._value("general.architecture")
        if architecture != "llama":
            raise PagedlabError(f"{path.name} holds a model of architecture {architecture!r}; only 'llama' can be run")

    def _value(self, key: str, default=None):
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def config(self, name: str) -> LlamaConfig:
        """The model's sizes, under the given name."""
        heads = self._value("llama.attention.head_count")
        hidden_size = self._value("llama.embedding_length")
        return LlamaConfig(
            name=name,
            vocab_size=self._value("llama.vocab_size"),
            hidden_size=hidden_size,
            intermediate_size=self._value("llama.feed_forward_length"),
            num_layers=self._value("llama.block_count"),
            num_query_heads=heads,
            num_kv_heads=self._value("llama.attention.head_count_kv", heads),
            head_size=self._value("llama.rope.dimension_count", hidden_size // heads),
            rope_theta=self._value("llama.rope.freq_base", 10000.0),
            rms_norm_eps=self._value("llama.attention.layer_norm_rms_epsilon"),
            max_model_len=self._value("llama.context_length"),
            tie_word_embeddings=all(tensor.name != "output.weight" for tensor in self._reader.tensors),
        )

    def tokenizer(self) -> Tokenizer:
        """The byte-level BPE of a model of SmolLM's family."""
        tokens = self._value("tokenizer.ggml.tokens")
        control = gguf.TokenType.CONTROL
        named = {"bos_token": "tokenizer.ggml.bos_token_id", "eos_token": "tokenizer.ggml.eos_token_id"}
        return byte_level_bpe(
            tokens,
            self._value("tokenizer.ggml.merges"),
            [id_ for id_, kind in enumerate(self._value("tokenizer.ggml.token_type")) if kind == control],
            split_digits=self._value("tokenizer.ggml.pre") == "smollm",
            eos_token_ids={self._value("tokenizer.ggml.eos_token_id")},
            chat_template=self._value("tokenizer.chat_template"),
            special_tokens={name: tokens[self._value(key)] for name, key in named.items()},
        )

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Each weight as (Hugging Face's name, fp32 values), dequantised one at a time."""
        heads = self._value("llama.attention.head_count")
        rows_in_pairs = {"attn_q.weight": heads, "attn_k.weight": self._value("llama.attention.head_count_kv", heads)}
        for tensor in self._reader.tensors:
            values = torch.from_numpy(np.require(dequantised(tensor), requirements="W"))
            if not tensor.name.startswith("blk."):
                yield HF_NAME[tensor.name], values
                continue
            _, layer, part = tensor.name.split(".", 2)
            if part in rows_in_pairs:
                values = halves_from_pairs(values, rows_in_pairs[part])
            yield f"model.layers.{layer}.{HF_NAME[part]}", values


def dequantised(tensor: gguf.ReaderTensor) -> np.ndarray:
    """The tensor's values: [rows, columns] or [columns], fp32.

    The library takes 16 rows at a time, whatever their length. In rows of 8 KiB that is what a core's cache holds, and
    three times quicker than in this model's own rows of a few hundred bytes.
    """
    data = np.asarray(tensor.data)
    block_bytes = gguf.GGML_QUANT_SIZES[tensor.tensor_type][1]
    rows = next(n for n in range(max(1, data.nbytes >> 13), 0, -1) if data.nbytes // block_bytes % n == 0)
    return dequantize(data.view(np.uint8).reshape(rows, -1), tensor.tensor_type).reshape(tensor.shape[::-1])


def halves_from_pairs(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Undo llama.cpp's reordering of query and key rows: [heads * head_size, in] -> the same shape.

    Its rotary embedding turns neighbours (0, 1), (2, 3), ...; ours turns element i with i + head_size / 2.
    """
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
