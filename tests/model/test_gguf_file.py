"""Reading the model file: quickly, and exactly as the gguf library reads it."""

import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize

from pagedlab.model.gguf_file import QuickReader
from pagedlab.model.weights import weight_slots


@pytest.fixture(scope="module")
def reference(model_file):
    return gguf.GGUFReader(model_file)


def test_every_field_has_the_value_that_the_library_reads(reference, model_file):
    quick = QuickReader(model_file)
    assert list(quick.fields) == list(reference.fields)
    for name, field in reference.fields.items():
        assert quick.fields[name].contents() == field.contents(), name
        assert quick.fields[name].types == field.types, name


def test_weights_are_exactly_the_reference_dequantisation(reference, smollm2):
    slots = weight_slots(smollm2[0])
    names = {"attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj"}
    names |= {"ffn_down": "mlp.down_proj", "attn_v": "self_attn.v_proj", "attn_norm": "input_layernorm"}
    names |= {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "ffn_norm": "post_attention_layernorm"}
    compared = 0
    for tensor in reference.tensors:
        expected = dequantize(tensor.data, tensor.tensor_type)
        if tensor.name.startswith("blk."):
            _, layer, part, _ = tensor.name.split(".")
            if part in ("attn_q", "attn_k"):  # llama.cpp interleaves the halves of each head of 64: take them apart
                expected = np.concatenate(
                    [np.concatenate((h[0::2], h[1::2])) for h in np.split(expected, len(expected) // 64)]
                )
            slot = slots[f"model.layers.{layer}.{names[part]}.weight"]
        else:
            slot = slots[
                {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[
                    tensor.name
                ]
            ]
        assert torch.equal(slot, torch.from_numpy(expected.copy())), tensor.name
        compared += 1
    assert compared == len(slots) == 272
