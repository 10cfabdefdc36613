"""Text to ids and back, pieces for display, conversations."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedlab.errors import PagedlabError
from pagedlab.model.tokenizer import Tokenizer, byte_tokenizer

TEXTS = [
    "Hello world",
    "a  b   c\n\n\td   ",
    "12345 and 3.14159, 2026-11-29",
    "Tiếng Việt: xin chào, đây là một câu",
    "family 👩‍👩‍👧‍👦 smiles 😀",
    "日本語のテキスト。",
    "def f(x):\n    return x**2  # ok\n\n\nclass A:\n\tpass\r\n",
    "I'll don't WE'VE it's",
    "<|im_start|>user\nhi<|im_end|>\n",
    "",
    "   ",
    "\u00a0no-break\u200b zero width",
    "مرحبا 123",
]


@pytest.fixture(scope="module")
def tokenizer(smollm2):
    return smollm2[1]


def test_prompts_get_the_ids_that_transformers_gives_them(tokenizer, golden):
    for record in golden:
        assert tokenizer.encode(record["text"]) == record["prompt_ids"]
        assert tokenizer.decode(record["output_ids"]) == record["output_text"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_encoding_and_decoding(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text


def test_ids_equal_those_of_transformers_reading_the_same_file(tokenizer, model_file, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import transformers

    reference = transformers.AutoTokenizer.from_pretrained(str(model_file.parent), gguf_file=model_file.name)
    for text in TEXTS:
        assert tokenizer.encode(text) == reference.encode(text, add_special_tokens=False), text
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 12?"}]
    expected = reference.apply_chat_template(messages, add_generation_prompt=True)
    assert tokenizer.chat(messages) == list(expected["input_ids"])


def test_each_digit_is_a_token_of_its_own(tokenizer):
    assert [tokenizer.piece(id_) for id_ in tokenizer.encode("in 2048 ½")] == ["in", " ", *"2048", " ", "½"]


def test_special_tokens_are_single_ids(tokenizer):
    assert tokenizer.encode("<|endoftext|><|im_start|><|im_end|>") == [0, 1, 2]
    assert tokenizer.eos_token_ids == {2} and tokenizer.vocab_size == 49152
    assert tokenizer.decode([2, *tokenizer.encode("x")]) == "x"


def test_every_piece_is_printable_and_not_empty(tokenizer):
    pieces = [tokenizer.piece(id_) for id_ in range(tokenizer.vocab_size)]
    assert all(piece and piece.isprintable() for piece in pieces)


def test_pieces_show_spaces_controls_and_parts_of_characters(tokenizer):
    pieces = [tokenizer.piece(id_) for id_ in tokenizer.encode("Hi there\n\tđ")]
    assert pieces == ["Hi", " there", "\\n", "\\t", "\\xc4", "\\x91"]
    assert tokenizer.piece(1) == "<|im_start|>"
    assert tokenizer.piece(10**6) == "[1000000]"


def test_a_conversation_is_written_as_the_model_was_trained(tokenizer):
    ids = tokenizer.chat([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    text = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert ids == tokenizer.encode(text) and ids.count(1) == 3


@pytest.mark.parametrize("messages", [[], ["Hi"], [{"role": "user"}], [{"role": "user", "content": None}]])
def test_a_malformed_conversation_is_refused_in_one_sentence(tokenizer, messages):
    with pytest.raises(PagedlabError, match="message"):
        tokenizer.chat(messages)


def test_a_model_without_a_chat_template_says_so():
    plain = Tokenizer(byte_tokenizer()._backend, eos_token_ids=[])
    with pytest.raises(PagedlabError, match="no chat template"):
        plain.chat([{"role": "user", "content": "Hi"}])


def test_a_template_may_refuse_but_not_reach_outside():
    messages = [{"role": "user", "content": "Hi"}]
    for template in ("{{ raise_exception('roles must alternate') }}", "{{ messages.__class__.__mro__ }}", "{% if %}"):
        with pytest.raises(PagedlabError, match="chat template"):
            Tokenizer(byte_tokenizer()._backend, eos_token_ids=[], chat_template=template).chat(messages)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_tiny_tokenizer_round_trips_any_text_byte_for_byte(text):
    tokenizer = byte_tokenizer()
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    if "<|" not in text:
        assert ids == list(text.encode())
    assert all(tokenizer.piece(id_).isprintable() for id_ in ids)
