"""Names, devices, damaged files: what load_model accepts and how it refuses."""

import dataclasses
import hashlib

import pytest
import torch

from pagedlab.engine import LLM
from pagedlab.errors import PagedlabError
from pagedlab.model import download
from pagedlab.model.weights import load_model


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEDLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def greedy(model, tokenizer, text, contiguous, tokens=24):
    attend, out = contiguous(), []
    ids = torch.tensor(tokenizer.encode(text))
    positions = torch.arange(len(ids))
    for _ in range(tokens):
        out.append(model.logits(model(ids, positions, attend)[-1:]).argmax().item())
        ids, positions = torch.tensor(out[-1:]), positions[-1:] + 1
    return out


def test_tiny_random_is_the_same_model_for_the_same_seed(contiguous):
    runs = [greedy(*load_model("tiny-random", seed=seed), "Once upon", contiguous) for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


def test_tiny_random_answers_depend_on_the_whole_context(contiguous):
    model, tokenizer = load_model("tiny-random")
    runs = [greedy(model, tokenizer, text, contiguous) for text in ("abc abc", "xbc abc", "abc abd")]
    assert len({tuple(run) for run in runs}) == 3
    assert all(len(set(run)) > 4 for run in runs)


def test_tiny_random_needs_no_file(empty_cache):
    model, tokenizer = load_model("tiny-random")
    assert not empty_cache.exists()
    assert model.config.vocab_size == tokenizer.vocab_size and model.config.max_model_len == 512


def test_the_random_model_of_smollm2s_size_has_its_sizes_and_needs_no_file(smollm2, tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEDLAB_CACHE", str(tmp_path / "cache"))
    model, tokenizer = load_model("smollm2-random", dtype=torch.bfloat16)
    real = smollm2[0]
    known = dict(name="", rms_norm_eps=0.0)  # the real file has the latter as float32
    assert dataclasses.replace(model.config, **known) == dataclasses.replace(real.config, **known)
    assert model.config.rms_norm_eps == pytest.approx(real.config.rms_norm_eps)
    assert "random weights" in model.config.name and 2 * model.num_bytes == real.num_bytes
    assert not (tmp_path / "cache").exists() and tokenizer.decode([72, 105, 40_000]) == "Hi"


def test_the_random_model_of_smollm2s_size_answers_by_the_whole_context(contiguous):
    model, tokenizer = load_model("smollm2-random")
    runs = [greedy(model, tokenizer, text, contiguous, tokens=6) for text in ("abc abc", "xbc abc")]
    assert runs[0] != runs[1] and all(len(set(run)) > 2 for run in runs)


@pytest.mark.parametrize("name", ["smollm2", "SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"])
def test_smollm2_answers_to_all_its_names(name, empty_cache):
    empty_cache.mkdir()
    (empty_cache / download.FILE_NAME).write_bytes(b"damaged on purpose: proves that this name leads to the file")
    with pytest.raises(PagedlabError, match="fetch-model"):
        load_model(name)


@pytest.mark.parametrize("name", ["gpt-17", "", "/no/such/folder", "./neither", "a/b/c"])
def test_an_unknown_name_is_refused_with_the_names_that_are_allowed(name):
    with pytest.raises(PagedlabError, match="unknown model .*'smollm2', 'tiny-random'"):
        load_model(name)


def test_a_hub_name_without_internet_fails_clearly(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(PagedlabError, match="hub did not give it.*local folder"):
        load_model("nobody-at-all/no-such-model")


def test_a_file_in_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(PagedlabError, match="is a file: give the folder"):
        load_model(str(tmp_path / "model.bin"))


def test_an_impossible_device_or_dtype_is_refused():
    with pytest.raises(PagedlabError, match="allowed are cpu, cuda, cuda:0"):
        load_model("tiny-random", device="toaster")
    with pytest.raises(PagedlabError, match="allowed are cpu, cuda, cuda:0"):
        load_model("tiny-random", device="meta")
    with pytest.raises(PagedlabError, match="float32, torch.float16 or torch.bfloat16"):
        load_model("tiny-random", dtype=torch.int8)
    if not torch.cuda.is_available():
        with pytest.raises(PagedlabError, match="no CUDA device here"):
            load_model("tiny-random", device="cuda")


@pytest.mark.parametrize("make", [load_model, LLM])
def test_a_gpu_beyond_the_last_one_is_refused_before_anything_is_put_there(make, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(PagedlabError, match="'cuda:2', and there is none after cuda:1"):
        make("tiny-random", device="cuda:2")


def test_a_truncated_model_file_is_refused_and_kept(model_file, empty_cache):
    empty_cache.mkdir()
    cut = empty_cache / download.FILE_NAME
    cut.write_bytes(model_file.read_bytes()[:1_000_000])
    with pytest.raises(PagedlabError, match=r"1,000,000 bytes instead of 98,362,432.*pagedlab fetch-model"):
        load_model("smollm2")
    assert cut.exists()


def test_one_flipped_bit_in_the_model_file_is_found(model_file, empty_cache):
    empty_cache.mkdir()
    content = bytearray(model_file.read_bytes())
    assert hashlib.sha256(content).hexdigest() == download.FILE_SHA256
    content[50_000_000] ^= 1
    (empty_cache / download.FILE_NAME).write_bytes(content)
    with pytest.raises(PagedlabError, match="checksum is wrong.*pagedlab fetch-model"):
        load_model("smollm2")
