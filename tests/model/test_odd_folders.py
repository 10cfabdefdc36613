"""Whatever a model's folder holds: it runs, or PagedlabError says in one sentence what is wrong with it."""

import json
import shutil

import pytest
import torch
from test_hf_folder import LLAMA3, edit, save

from pagedlab.errors import PagedlabError
from pagedlab.model.weights import load_model

ODD = [
    *(None, True, False, 0, 1, -1, 2, 3, 0.5, 1e-300, 1e300, float("inf"), float("nan"), 10**6, 1 << 62, 10**30),
    *("", "64", "auto", "llama3", "é\n"),
    *([], [None], ["LlamaForCausalLM"], [[1]], [1, "2"], [-1], {}, {"": None}, {"rope_type": None}, {"type": []}),
    *({"rope_type": "llama3", "factor": "8"}, {"rope_type": "linear"}, {"factor": 8.0}, {"type": {}, "factor": 8.0}),
    *({"full_attention": {"rope_type": "linear", "factor": 4.0}}, {"content": 5}, {"content": None}),
]
# What may be missing from a file that transformers wrote, but is read where it stands.
UNWRITTEN = {
    *("head_dim", "rope_scaling", "rope_theta", "quantization_config", "partial_rotary_factor", "sliding_window"),
    *("use_sliding_window", "max_window_layers", "layer_types", "kv_lora_rank", "attention_bias", "mlp_bias"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A good folder; each test changes a copy."""
    folder = tmp_path_factory.mktemp("good")
    save(folder, "llama3 positions")
    return folder


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "model")


def runs_or_says_why(folder, what):
    """True where it runs."""
    try:
        model, tokenizer = load_model(str(folder))
        tokenizer.encode("a"), tokenizer.decode([1])
        logits = model.logits(model(torch.tensor([1]), torch.tensor([0]), lambda layer, q, k, v: q))
        assert logits.shape == (1, model.config.vocab_size), what
        return True
    except PagedlabError as error:
        assert str(error) and "KeyError" not in str(error), what
        return False
    except BaseException as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


@pytest.mark.slow
def test_any_value_in_any_place_of_a_configuration(copy):
    good = json.loads((copy / "config.json").read_text())
    fields = sorted({*good, *UNWRITTEN})
    ran = {field: 0 for field in fields}
    for field in fields:
        for value in ODD:
            (copy / "config.json").write_text(json.dumps(good | {field: value}))
            ran[field] += runs_or_says_why(copy, f"{field} = {value!r}")
        (copy / "config.json").write_text(json.dumps({name: v for name, v in good.items() if name != field}))
        runs_or_says_why(copy, f"no {field}")
    assert ran["vocab_size"] == ran["hidden_size"] == 0 and ran["num_hidden_layers"] == 1  # the true value, 3
    assert ran["rope_parameters"] < 10 and ran["transformers_version"] == len(ODD)


@pytest.mark.parametrize("rope", ["rope_parameters", "rope_scaling"])
def test_any_value_in_any_place_of_the_rope_settings(copy, rope):
    good = json.loads((copy / "config.json").read_text()) | {"rope_parameters": None}
    for field in (*LLAMA3, "type", "partial_rotary_factor"):
        for value in ODD:
            (copy / "config.json").write_text(json.dumps(good | {rope: LLAMA3 | {field: value}}))
            runs_or_says_why(copy, f"{rope}: {field} = {value!r}")
        half = {name: value for name, value in LLAMA3.items() if name != field}
        (copy / "config.json").write_text(json.dumps(good | {rope: half}))
        ran = runs_or_says_why(copy, f"{rope} without {field}")
        assert ran == (field in ("rope_theta", "type", "partial_rotary_factor")), field


@pytest.mark.parametrize(
    "name",
    ["generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "model.safetensors.index.json"],
)
def test_any_value_in_the_files_beside_it(copy, name):
    fields = ("eos_token_id", "eos_token", "bos_token", "chat_template", "add_bos_token", "weight_map", "metadata")
    for field in fields:
        for value in ODD:
            (copy / name).write_text(json.dumps({field: value}))
            runs_or_says_why(copy, f"{name}: {field} = {value!r}")


@pytest.mark.parametrize(
    "name",
    ["config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json",
     "model.safetensors.index.json", "tokenizer.json", "model.safetensors", "chat_template.jinja"],
)  # fmt: skip
def test_any_file_in_the_place_of_another(copy, name):
    good = (copy / name).read_bytes() if (copy / name).exists() else b'{"a": 1}'
    odd = [b"", b"\0", b"null", b"[]", b'"text"', b"5", b"{", b"\xff\xfe", b"[" * 10**5, b"{}", good[: len(good) // 2],
           good[:9], b"\xff" * 8 + good, good[:-1], good[8:], b"\xef\xbb\xbf" + good]  # fmt: skip
    for content in odd:
        (copy / name).write_bytes(content)
        runs_or_says_why(copy, f"{name} is {content[:40]!r}")
    (copy / name).unlink()
    runs_or_says_why(copy, f"no {name}")
    (copy / name).mkdir()
    runs_or_says_why(copy, f"{name} is a folder")


def test_any_value_in_the_tokenizers_file(copy):
    good = json.loads((copy / "tokenizer.json").read_text())
    for field in good:
        for value in ODD:
            (copy / "tokenizer.json").write_text(json.dumps(good | {field: value}))
            runs_or_says_why(copy, f"tokenizer.json: {field} = {str(value)[:40]!r}")


def test_an_index_whose_files_are_not_there_or_no_files(copy):
    for file in ("gone.safetensors", "../model.safetensors", "", ".", "config.json", "\0", "a" * 5000):
        (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": file}}))
        assert not runs_or_says_why(copy, f"weight_map names {file[:40]!r}")


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn])
def test_weights_in_a_form_that_only_quantized_models_have_are_refused(copy, dtype):
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    save_file({name: w.to(dtype) for name, w in weights.items()}, copy / "model.safetensors")
    with pytest.raises(PagedlabError, match="only fp32, fp16 and bf16 weights can be run"):
        load_model(str(copy))


WRONG = {
    "a null size": (dict(hidden_size=None), "lacks 'hidden_size'"),
    "text for a number": (dict(num_attention_heads="4"), "has '4' as 'num_attention_heads', which must be a whole"),
    "half of a number": (dict(vocab_size=259.5), "has 259.5 as 'vocab_size'"),
    "no head": (dict(num_attention_heads=0), "has 0 as 'num_attention_heads'"),
    "text for yes or no": (dict(tie_word_embeddings="false"), "must be true or false"),
    "uneven heads": (dict(num_key_value_heads=3), "shares 3 KV heads among 4"),
    "a size beyond sense": (dict(max_position_embeddings=10**12), "from 1 to 16777216"),
    "half rope settings": (dict(rope_parameters=dict(rope_type="llama3", factor=8.0)), "lacks 'low_freq_factor'"),
    "a factor for nothing": (dict(rope_parameters=None, rope_scaling=dict(factor=8.0)), "does not say how"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_configuration_is_said(copy, case):
    change, message = WRONG[case]
    edit(copy, lambda c: c.update(change))
    with pytest.raises(PagedlabError, match=message):
        load_model(str(copy))
