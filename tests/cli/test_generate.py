"""`pagedlab generate`, on tiny-random: nonsense, but the engine's real nonsense."""

import pytest

from pagedlab.engine import LLM, CompletionOutput, RequestOutput, SamplingParams
from pagedlab.generate import pieces
from pagedlab.terminal import printable_lines

TINY = ("--model", "tiny-random", "--device", "cpu", "--max-tokens", "12", "--num-gpu-blocks-override", "64")


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("tiny-random", device="cpu", num_gpu_blocks_override=64)


def test_it_prints_what_the_engine_answers(run, llm):
    expected = llm.generate("some words", SamplingParams(max_tokens=12))[0].outputs[0].text
    done = run("generate", "some words", *TINY)
    assert (done.status, done.out) == (0, expected + "\n")


def test_a_dash_reads_the_prompt_from_standard_input_without_the_last_newline(run):
    assert run("generate", "-", *TINY, stdin="some words\n").out == run("generate", "some words", *TINY).out


def test_a_terminal_gets_the_same_text_piece_by_piece(run, run_in_terminal):
    at_once = run("generate", "some words", *TINY)
    streamed = run_in_terminal("generate", "some words", *TINY)
    assert streamed.status == 0
    assert streamed.out == at_once.out


def test_a_terminal_is_not_steered_by_what_the_model_says(run, run_in_terminal):
    for options in ((), ("--n", "2")):
        argv = ("generate", "some words", *TINY[:4], "--max-tokens", "200", "--temperature", "1.5", *options)
        output = run(*argv).out
        assert [char for char in output if ord(char) < 32 and char not in "\n\t"]
        assert run_in_terminal(*argv).out == printable_lines(output)


def test_options_reach_the_engine(run, llm):
    params = SamplingParams(temperature=0.8, top_k=20, top_p=0.9, seed=7, n=2, max_tokens=12)
    first, second = (answer.text for answer in llm.generate("some words", params)[0].outputs)
    options = "--temperature 0.8 --top-k 20 --top-p 0.9 --seed 7 --n 2"
    done = run("generate", "some words", *TINY, *options.split())
    assert done.out == f"--- 1 of 2\n{first}\n--- 2 of 2\n{second}\n"


def test_the_text_ends_before_a_stop_string(run):
    whole = run("generate", "some words", *TINY).out.rstrip("\n")
    stop = whole[4:6]
    assert run("generate", "some words", *TINY, "--stop", stop).out.rstrip("\n") == whole[: whole.index(stop)]


def test_the_text_ends_before_a_stop_token(run):
    """Tokens of this model are bytes."""
    whole = run("generate", "some words", *TINY).out.rstrip("\n")
    byte = next(c for c in whole if c.isascii())
    done = run("generate", "some words", *TINY, "--stop-token-ids", "258", "--stop-token-ids", str(ord(byte)))
    assert done.out.rstrip("\n") == whole[: whole.index(byte)]


def test_chat_puts_the_prompt_into_the_chat_template(run, llm):
    ids = llm.tokenizer.chat([{"role": "user", "content": "hello"}])
    expected = llm.generate(ids, SamplingParams(max_tokens=12))[0].outputs[0].text
    assert run("generate", "hello", *TINY, "--chat").out == expected + "\n"


def outputs(*texts: str) -> list[RequestOutput]:
    """One output a step, with these texts; the last one is finished."""
    reasons = [None] * (len(texts) - 1) + ["stop"]
    return [RequestOutput("A", None, [1], [CompletionOutput(0, text, [], reason)], 0)
            for text, reason in zip(texts, reasons, strict=True)]


@pytest.mark.parametrize("texts, stop, expected", [
    (["a", "ab", "abc"], [], ["a", "b", "c"]),
    (["caf", "caf\ufffd", "café", "café!"], [], ["caf", "é", "!"]),  # a character whose bytes come in two tokens
    (["a", "a\ufffd"], [], ["a", "\ufffd"]),  # ... and never come
    (["one\n", "one"], ["\n\n"], ["one"]),
    (["one\n", "one\ntwo"], ["\n\n"], ["one", "\ntwo"]),  # the beginning of a stop string that was none
    (["x</", "x</b", "x</b>y"], ["</a>", "</b>z"], ["x", "</b>y"]),
])
def test_pieces_say_nothing_that_has_to_be_taken_back(texts, stop, expected):
    assert list(pieces(iter(outputs(*texts)), stop)) == expected
