"""A model that was written as a Hugging Face folder is the same model, for us and for transformers."""

from dataclasses import replace

import pytest
import torch

from pagedlab.errors import PagedlabError
from pagedlab.model.export import save_hf_folder
from pagedlab.model.weights import load_model, weight_slots

TEXT = "One block is not <|im_start|>enough: 12,\n"


@pytest.fixture(scope="module", params=["tiny-random", "tiny-random-hybrid"])
def name(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("exported") / "deep" / "tiny"
    save_hf_folder(*load_model(name), folder)
    return folder


def test_it_reads_back_as_it_was(folder, name):
    (model, tokenizer), (again, tokenizer_again) = load_model(name), load_model(str(folder))
    assert again.config.windows == model.config.windows
    for name, slot in weight_slots(again).items():
        assert torch.equal(slot, weight_slots(model)[name]), name
    assert tokenizer_again.encode(TEXT) == tokenizer.encode(TEXT)
    assert tokenizer_again.eos_token_ids == tokenizer.eos_token_ids
    talk = [{"role": "user", "content": TEXT}]
    assert tokenizer_again.chat(talk) == tokenizer.chat(talk)


def test_transformers_loads_it_and_says_the_same(folder, name):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from pagedlab import LLM, SamplingParams

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.encode(TEXT) == load_model(name)[1].encode(TEXT)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    ids = torch.tensor([tokenizer.encode(TEXT)])
    theirs = model.generate(ids, max_new_tokens=12, min_new_tokens=12, do_sample=False)[0, ids.shape[1] :].tolist()
    params = SamplingParams(max_tokens=12, ignore_eos=True)
    [ours] = LLM(name, device="cpu").generate([ids[0].tolist()], params)
    assert ours.outputs[0].token_ids == theirs


def test_windows_of_several_lengths_have_no_place_in_a_configuration(tmp_path):
    model, tokenizer = load_model("tiny-random-hybrid")
    model.config = replace(model.config, windows=(4, 8, None, None))
    with pytest.raises(PagedlabError, match="windows of several lengths"):
        save_hf_folder(model, tokenizer, tmp_path / "two")


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(PagedlabError, match="cannot be written"):
        save_hf_folder(*load_model("tiny-random"), tmp_path / "taken")
