"""The model computes what Hugging Face's computes, and only `attend` lets tokens meet."""

import dataclasses

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pagedlab.model import llama
from pagedlab.model.llama import LlamaConfig, LlamaModel, linear, rms_norm, rope_frequencies, rotate
from pagedlab.model.weights import load_model


def test_greedy_continuations_equal_those_of_transformers(smollm2, golden, all_logits):
    """In one pass over each prompt and its answer: where each token is the best after those before it, so is the
    whole. Where the golden gap is under 1e-3 the second best is allowed, and the comparison of that prompt ends.
    """
    model, _ = smollm2
    for record in golden:
        prompt, answer = record["prompt_ids"], record["output_ids"]
        rows = all_logits(model, prompt + answer)[len(prompt) - 1 : -1]
        for step, (best, expected, gap) in enumerate(zip(rows, answer, record["top2_gap"], strict=True)):
            top = best.topk(2)
            if gap < 1e-3:
                assert expected in top.indices.tolist()
                break
            assert top.indices[0] == expected, f"{record['text']!r}, step {step}"
            assert (top.values[0] - top.values[1]).item() == pytest.approx(gap, abs=2e-3)


def test_decoding_token_by_token_gives_the_same_as_one_pass(smollm2, golden, contiguous):
    model, _ = smollm2
    record, attend = golden[0], contiguous()
    ids, positions = torch.tensor(record["prompt_ids"]), torch.arange(len(record["prompt_ids"]))
    for expected in record["output_ids"][:12]:
        assert model.logits(model(ids, positions, attend)[-1:]).argmax() == expected
        ids, positions = torch.tensor([expected]), positions[-1:] + 1


def test_smollm2_has_the_sizes_that_its_makers_state(smollm2):
    config = smollm2[0].config
    assert (config.num_layers, config.num_query_heads, config.num_kv_heads, config.head_size) == (30, 9, 3, 64)
    assert (config.max_model_len, config.vocab_size, config.tie_word_embeddings) == (8192, 49152, True)
    assert smollm2[0].num_bytes == 4 * sum(p.numel() for p in smollm2[0].parameters()) == 4 * 134_515_008


def test_chunked_prefill_gives_the_same_logits(contiguous, all_logits):
    model, tokenizer = load_model("tiny-random")
    ids = tokenizer.encode("The quick brown fox jumps over the lazy dog.")
    whole = all_logits(model, ids)
    attend, parts = contiguous(), []
    for start, end in ((0, 7), (7, 8), (8, 30), (30, len(ids))):
        parts.append(model.logits(model(torch.tensor(ids[start:end]), torch.arange(start, end), attend)))
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-4, rtol=0)


def test_requests_packed_in_one_pass_do_not_touch_each_other(contiguous, all_logits):
    model, tokenizer = load_model("tiny-random")
    texts = [tokenizer.encode(text) for text in ("first request", "the second", "3")]
    ends = torch.tensor([len(ids) for ids in texts]).cumsum(0).tolist()
    memories = [contiguous() for _ in texts]

    def attend(layer, query, key, value):
        parts = [t.tensor_split(ends[:-1]) for t in (query, key, value)]
        return torch.cat([memory(layer, *part) for memory, *part in zip(memories, *parts, strict=True)])

    positions = torch.cat([torch.arange(len(ids)) for ids in texts])
    together = model.logits(model(torch.tensor(sum(texts, [])), positions, attend))
    alone = torch.cat([all_logits(model, ids) for ids in texts])
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=0)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 16, 17, 40, 64, 65, 300])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("out, in_", [(80, 48), (192, 48), (64, 96), (80, 96)])
def test_linear_is_a_matrix_product_for_any_number_of_tokens(rows, biased, out, in_):
    generator = torch.Generator().manual_seed(rows)
    x, weight = torch.randn(rows, in_, generator=generator), torch.randn(out, in_, generator=generator)
    bias = torch.randn(out, generator=generator) if biased else None
    given = x.clone()
    result = linear(x, weight, bias)
    exact = torch.nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert result.shape == (rows, out) and (result.is_contiguous() or rows == 1) and torch.equal(x, given)
    torch.testing.assert_close(result, exact.float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("tokens", [1, 3])
def test_rotate_turns_each_pair_by_its_angle(tokens):
    x, angle = torch.randn(tokens, 5, 16), torch.rand(tokens, 1, 8) * 6
    cos, sin = angle.cos(), angle.sin()
    pairs = torch.complex(x[..., :8], x[..., 8:]) * torch.complex(cos, sin)
    turned = rotate(x, cos, sin)
    torch.testing.assert_close(turned, torch.cat((pairs.real, pairs.imag), -1))


@pytest.mark.parametrize("dtype, near", [(torch.float32, 1e-5), (torch.float16, 5e-3), (torch.bfloat16, 4e-2)])
def test_rms_norm_brings_each_token_to_root_mean_square_one_times_the_weight(dtype, near):
    x, weight = (100 * torch.randn(3, 64)).to(dtype), torch.rand(64).to(dtype)
    exact = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    result = rms_norm(x, weight, 1e-5)
    assert result.dtype == dtype
    torch.testing.assert_close(result.double(), exact, atol=near, rtol=near)


def test_a_long_prompt_whose_tokens_go_a_part_at_a_time_gives_the_same(contiguous, monkeypatch):
    model, _ = load_model("tiny-random")
    ids, positions = torch.arange(100), torch.arange(100)
    whole = model(ids, positions, contiguous())
    monkeypatch.setattr(llama, "TOKENS_AT_A_TIME", 32)
    torch.testing.assert_close(model(ids, positions, contiguous()), whole, atol=1e-4, rtol=0)


@pytest.mark.parametrize("device, products", [("cpu", 9), ("meta", 1)])
def test_tokens_go_a_part_at_a_time_on_a_cpu_and_all_at_once_elsewhere(device, products):
    """A layer has four weights. On the meta device shapes are worked out as on a GPU, and nothing is computed."""
    seen = []

    class Products(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), kwargs=None):
            if function.overloadpacket is torch.ops.aten.linear:
                seen.append(len(arguments[0]))
            return function(*arguments, **(kwargs or {}))

    config = dataclasses.replace(load_model("tiny-random")[0].config, num_layers=1, max_model_len=5000)
    model = LlamaModel(config, device, torch.bfloat16)
    tokens = torch.zeros(8 * 512 + 7, dtype=torch.int64, device=device)
    with Products():
        model(tokens, tokens, lambda layer, query, key, value: query)
    assert sum(seen) == 4 * len(tokens)
    assert len(seen) == 4 * products


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_near_fp32_and_gives_fp32_logits(dtype, all_logits):
    ids = list(b"half precision")
    half = all_logits(load_model("tiny-random", dtype=dtype)[0], ids)
    full = all_logits(load_model("tiny-random")[0], ids)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, full, atol=0.15, rtol=0)


def test_no_part_of_a_run_is_recorded_for_gradients(contiguous):
    model, _ = load_model("tiny-random")
    hidden = model(torch.tensor([1, 2]), torch.arange(2), contiguous())
    assert hidden.is_inference() and not any(weight.requires_grad for weight in model.parameters())


def test_llama3_scaling_keeps_quick_pairs_and_slows_slow_ones():
    sizes = dict(vocab_size=8, hidden_size=64, intermediate_size=64, num_layers=1, num_query_heads=1, num_kv_heads=1)
    sizes |= dict(head_size=64, rope_theta=500000.0, rms_norm_eps=1e-5, max_model_len=64, name="x")
    plain = rope_frequencies(LlamaConfig(**sizes, tie_word_embeddings=True))
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling["original_max_position_embeddings"] = 8192
    config = LlamaConfig(**sizes, tie_word_embeddings=True, rope_scaling=scaling)
    ratio = plain / rope_frequencies(config)
    assert ratio[0] == 1 and ratio[-1] == pytest.approx(8) and (ratio.diff() >= -1e-5).all()
    assert LlamaModel(config).cos.shape == (64, 1, 32)
