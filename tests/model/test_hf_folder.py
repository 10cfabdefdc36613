"""A folder that transformers wrote gives the logits that transformers computes from it."""

import json

import pytest
import torch
import transformers

from pagedlab.errors import PagedlabError
from pagedlab.model.tokenizer import byte_tokenizer
from pagedlab.model.weights import load_model

SIZES = dict(vocab_size=259, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4)
SIZES |= dict(num_key_value_heads=2, max_position_embeddings=128, eos_token_id=[256, 258])
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, rope_theta=500.0)
LLAMA3 |= dict(original_max_position_embeddings=64)

FLAVOURS = {
    "plain": ("Llama", {}),
    "tied": ("Llama", dict(tie_word_embeddings=True)),
    "own head size": ("Llama", dict(head_dim=32)),
    "llama3 positions": ("Llama", dict(rope_parameters=LLAMA3)),
    "linear positions": ("Llama", dict(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=1e4))),
    "mistral": ("Mistral", dict(sliding_window=None)),
    "qwen2": ("Qwen2", {}),
}


def save(folder, flavour="plain", **how):
    """A small random model in a folder, with the byte tokenizer; returns transformers' model."""
    family, options = FLAVOURS[flavour]
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SIZES, **options)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    for name, parameter in model.named_parameters():  # transformers starts biases at 0 and norms at 1: no test
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=float("norm" in name), std=0.3)
        else:
            torch.nn.init.normal_(parameter, std=0.15)
    model.save_pretrained(folder, **how)
    byte_tokenizer()._backend.save(str(folder / "tokenizer.json"))
    return model


def assert_same_logits(reference, folder, all_logits):
    model, tokenizer = load_model(str(folder))
    ids = tokenizer.encode("Whatever it says, both say the same. " * 2)
    with torch.inference_mode():
        expected = reference(torch.tensor([ids])).logits[0]
    assert expected.std() > 0.1
    torch.testing.assert_close(all_logits(model, ids), expected, atol=1e-4, rtol=0)
    return model, tokenizer


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_logits_equal_those_of_transformers(flavour, tmp_path, all_logits):
    reference = save(tmp_path, flavour)
    model, tokenizer = assert_same_logits(reference, tmp_path, all_logits)
    assert tokenizer.eos_token_ids == {256, 258} and model.config.name == tmp_path.name


def test_a_model_in_several_files_is_put_together(tmp_path, all_logits):
    reference = save(tmp_path, max_shard_size="60KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert_same_logits(reference, tmp_path, all_logits)


def test_old_configurations_with_rope_theta_at_the_top_are_read(tmp_path, all_logits):
    reference = save(tmp_path, "llama3 positions")
    edit(tmp_path, lambda c: c.update(rope_theta=500.0, rope_scaling=c.pop("rope_parameters")))
    edit(tmp_path, lambda c: c["rope_scaling"].pop("rope_theta"))
    assert_same_logits(reference, tmp_path, all_logits)


def test_weights_are_cast_to_the_dtype_asked_for(tmp_path):
    save(tmp_path)
    assert load_model(str(tmp_path), dtype=torch.bfloat16)[0].dtype == torch.bfloat16


def test_a_sliding_window_limits_the_context_to_what_is_exact(tmp_path):
    save(tmp_path, "mistral")
    edit(tmp_path, lambda c: c.update(sliding_window=32))
    assert load_model(str(tmp_path))[0].config.max_model_len == 32


def test_chat_template_and_end_token_come_from_the_folder(tmp_path):
    save(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 65}')
    template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}"
    settings = {"chat_template": template, "bos_token": {"content": "<|endoftext|>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    _, tokenizer = load_model(str(tmp_path))
    assert tokenizer.eos_token_ids == {65}
    assert tokenizer.chat([{"role": "user", "content": "Hi"}]) == [256, *b"[user: Hi]"]
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert load_model(str(tmp_path))[1].chat([{"role": "user", "content": "Hi"}]) == [*b"Hi"]


@pytest.mark.parametrize("newer", [{}, {"added_tokens_decoder": {}}], ids=["older folder", "newer folder"])
def test_an_older_folder_names_its_special_tokens_in_a_file_of_their_own(newer, tmp_path):
    save(tmp_path)
    template = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    settings = {"chat_template": template, "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | newer))
    names = {"bos_token": {"content": "<|endoftext|>", "lstrip": False}, "eos_token": "<|im_start|>"}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(names))
    talk = [{"role": "user", "content": "Hi"}]
    reference = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    expected = list(reference.apply_chat_template(talk)["input_ids"])
    assert load_model(str(tmp_path))[1].chat(talk) == expected
    assert (expected == [256, *b"Hi", 257]) == (not newer)


def edit(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


REFUSED = {
    "another architecture": (dict(architectures=["GPT2LMHeadModel"]), "GPT2LMHeadModel; only LlamaForCausalLM"),
    "no architecture": (dict(architectures=None), "none named"),
    "quantized": (dict(quantization_config={"bits": 4}), "quantized"),
    "another activation": (dict(hidden_act="gelu"), "gelu"),
    "biases": (dict(attention_bias=True), "biases"),
    "stretched positions": (dict(rope_parameters=dict(rope_type="yarn", factor=4.0, rope_theta=1e4)), "yarn"),
    "half-rotated heads": (dict(partial_rotary_factor=0.5), "a part of each head"),
    "other sizes than its weights": (dict(intermediate_size=96), "do not belong together"),
    "more layers than its weights": (dict(num_hidden_layers=4), "weights of .* are missing"),
    "fewer layers than its weights": (dict(num_hidden_layers=2), "has no place"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_code_cannot_run_is_refused_by_name(case, tmp_path):
    change, message = REFUSED[case]
    save(tmp_path)
    edit(tmp_path, lambda c: c.update(change))
    with pytest.raises(PagedlabError, match=message):
        load_model(str(tmp_path))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(name, tmp_path):
    save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(PagedlabError, match=name if name != "model.safetensors" else r"no \*\.safetensors"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_truncated_file_is_named(name, tmp_path):
    save(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(PagedlabError, match=f"{name}.*download the folder again"):
        load_model(str(tmp_path))


def test_a_missing_shard_is_named(tmp_path):
    save(tmp_path, max_shard_size="60KB")
    shard = sorted(tmp_path.glob("*.safetensors"))[1]
    shard.unlink()
    with pytest.raises(PagedlabError, match=f"{shard.name} is missing"):
        load_model(str(tmp_path))


def test_a_configuration_without_a_size_is_refused(tmp_path):
    save(tmp_path)
    edit(tmp_path, lambda c: c.pop("hidden_size"))
    with pytest.raises(PagedlabError, match="lacks 'hidden_size'"):
        load_model(str(tmp_path))
