"""A folder that transformers wrote gives the logits that transformers computes from it."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from pagedlab.errors import PagedlabError
from pagedlab.model.tokenizer import byte_tokenizer
from pagedlab.model.weights import load_model

SIZES = dict(vocab_size=259, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4)
SIZES |= dict(num_key_value_heads=2, max_position_embeddings=128, eos_token_id=[256, 258])
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, rope_theta=500.0)
LLAMA3 |= dict(original_max_position_embeddings=64)

FULL, SLIDING = "full_attention", "sliding_attention"
WINDOWS = dict(use_sliding_window=True, sliding_window=32)
FLAVOURS = {
    "plain": ("Llama", {}),
    "tied": ("Llama", dict(tie_word_embeddings=True)),
    "own head size": ("Llama", dict(head_dim=32)),
    "llama3 positions": ("Llama", dict(rope_parameters=LLAMA3)),
    "linear positions": ("Llama", dict(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=1e4))),
    "mistral": ("Mistral", dict(sliding_window=None)),
    "mistral, a window of 9": ("Mistral", dict(sliding_window=9)),
    "mistral, a window of 1": ("Mistral", dict(sliding_window=1)),
    "ministral": ("Ministral", dict(head_dim=12, sliding_window=5, layer_types=[SLIDING, FULL, SLIDING])),
    "qwen2": ("Qwen2", {}),
    "qwen2, windows": ("Qwen2", dict(use_sliding_window=True, sliding_window=7, layer_types=[FULL, SLIDING, FULL])),
    "qwen2, the last layers": ("Qwen2", dict(use_sliding_window=True, sliding_window=7, max_window_layers=1)),
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


@pytest.mark.parametrize(
    "flavour, changes, windows",
    [
        ("mistral", dict(sliding_window=32), (32, 32, 32)),
        ("mistral", dict(sliding_window=None), ()),
        ("mistral", dict(sliding_window=32, layer_types=[FULL, SLIDING, FULL]), (None, 32, None)),
        ("plain", dict(sliding_window=32), (32, 32, 32)),
        ("plain", dict(sliding_window=32, layer_types=[SLIDING, SLIDING, FULL]), (32, 32, None)),
        ("plain", dict(sliding_window=32, layer_types=[FULL] * 3), ()),
        ("qwen2", dict(sliding_window=32), ()),
        ("qwen2", WINDOWS | dict(max_window_layers=2, layer_types=None), (None, None, 32)),
        ("qwen2", WINDOWS | dict(max_window_layers=28, layer_types=None), ()),
    ],
)
def test_the_layers_that_look_back_only_so_far(flavour, changes, windows, tmp_path):
    save(tmp_path, flavour)
    edit(tmp_path, lambda c: c.update(changes))
    config = load_model(str(tmp_path))[0].config
    assert config.windows == windows and config.max_model_len == 128


def test_an_older_mistral_that_does_not_say_has_the_window_that_transformers_gives_it(tmp_path):
    save(tmp_path, "mistral")
    edit(tmp_path, lambda c: c.pop("sliding_window"))
    assert load_model(str(tmp_path))[0].config.windows == (4096,) * 3
    assert transformers.AutoConfig.from_pretrained(tmp_path).sliding_window == 4096


@pytest.mark.parametrize(
    "changes, sentence",
    [
        (dict(sliding_window=0), "has 0 as 'sliding_window', which must be a whole number from 1"),
        (dict(layer_types=["chunked_attention"] * 3), "'chunked_attention'; only full_attention and sliding_attention"),
        (dict(layer_types=[SLIDING] * 3, sliding_window=None), "no sliding_window; only models that give it"),
        (dict(layer_types=[FULL] * 2), "has 3 layers and 2 layer_types; only models with one for each"),
        (dict(architectures=["GptOssForCausalLM"]), "attention sinks.*only LlamaForCausalLM, MistralForCausalLM"),
        (dict(architectures=["DeepseekV3ForCausalLM"], kv_lora_rank=16), r"\(MLA\).*only LlamaForCausalLM"),
        (dict(kv_lora_rank=16), r"\(MLA\)"),
    ],
)
def test_attention_that_there_is_not_is_named_with_what_there_is(changes, sentence, tmp_path):
    save(tmp_path)
    edit(tmp_path, lambda c: c.update(changes))
    with pytest.raises(PagedlabError, match=sentence):
        load_model(str(tmp_path))


def test_weights_of_attention_sinks_have_no_place(tmp_path):
    save(tmp_path)
    file = tmp_path / "model.safetensors"
    save_file(load_file(file) | {"model.layers.0.self_attn.sinks": torch.zeros(4)}, file)
    with pytest.raises(PagedlabError, match="attention sinks, which llama.py does not have"):
        load_model(str(tmp_path))


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
