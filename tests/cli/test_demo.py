"""`pagedlab demo` shows a real run, block by block, at a person's pace or to the end."""

import io
import re
import sys

import pytest

from pagedlab.trace import events as ev
from pagedlab.trace import load

TINY = ("--model", "tiny-random", "--device", "cpu", "--max-tokens", "12")
CLEAR = "\x1b[H\x1b[2J"


def steps(out: str) -> list[int]:
    """The step each picture says it shows."""
    return [int(number) for number in re.findall(r"step (\d+) of \d+", out)]


@pytest.fixture
def saved(run, tmp_path):
    """A run of two requests, what was printed of it, and its file."""
    path = tmp_path / "run.jsonl.gz"
    return run("demo", "first one", "other", *TINY, "--save", path), path


def test_without_a_terminal_it_goes_to_the_end_and_starts_with_the_prefill(run):
    done = run("demo", "Twelve more", *TINY)
    assert done.status == 0
    assert steps(done.out) == list(range(1, 13))
    first = done.out.split("step 2")[0]
    assert "Prefill wrote A's 11 tokens" in first and "sampled, not in memory yet" in first
    assert "\x1b" not in done.out


def test_each_sampled_token_waits_and_goes_into_its_block_a_step_later_but_the_last_never(run, tmp_path):
    path = tmp_path / "run.jsonl"
    done = run("demo", "Twelve more", *TINY, "--save", path)
    events = load(path).events
    sampled = [e for e in events if isinstance(e, ev.TokenSampled)]
    written = {e.position: e for e in events if isinstance(e, ev.SlotWritten)}
    assert len(sampled) == 12
    pictures = re.split(r"(?=^A: .* step \d+ of)", done.out, flags=re.M)[1:]
    for number, e in enumerate(sampled[:-1]):
        assert "sampled, not in memory yet" in pictures[number]
        slot = written[e.position]
        assert f"#{slot.block_id}" in pictures[number + 1] and f"offset {slot.offset}" in pictures[number + 1]
    assert sampled[-1].position not in written
    assert "11 prompt tokens and 11 of 12 sampled ones went into blocks" in " ".join(pictures[-1].split())


def test_several_prompts_run_in_one_pool(saved):
    done, path = saved
    assert done.status == 0
    assert {e.request_id for e in load(path).events if isinstance(e, ev.RequestFinished)} == {"A", "B"}
    assert "A: 9 prompt tokens" in done.out and "B: 5 prompt tokens" in done.out


def test_a_saved_run_shows_the_same_pictures_and_says_that_it_is_recorded(run, saved):
    live, path = saved
    assert f"pagedlab demo --trace {path}" in live.out
    again = run("demo", "--trace", path)
    assert again.status == 0
    assert "live" not in again.out and "recorded" in again.out
    assert steps(again.out) == steps(live.out)
    blocks = re.compile(r"^(?:#\d| +\d+ → ).*", re.M)
    assert blocks.findall(again.out) == blocks.findall(live.out)


def test_without_a_size_the_pool_holds_the_prompts_and_some_free_blocks_to_see(run, tmp_path):
    path = tmp_path / "run.jsonl"
    run("demo", "x" * 100, *TINY, "--save", path, "--block-size", "8")
    config = load(path).header["config"]
    assert (config["block_size"], config["num_blocks"]) == (8, 1 + 14 + 4)


def test_enter_is_the_next_step_b_goes_back_and_q_quits(run_in_terminal):
    done = run_in_terminal("demo", "Twelve more", *TINY, typed="\n\nb\n\n\nq\n")
    assert done.status == 0
    assert steps(done.out) == [1, 2, 3, 2, 3, 4]
    assert done.out.count(CLEAR) == 6 and "q: quit" in done.out


def test_at_the_end_enter_leaves_and_b_still_goes_back(run_in_terminal):
    done = run_in_terminal("demo", "Twelve more", "--model", "tiny-random", "--max-tokens", "2", typed="\nb\n\n\n")
    assert steps(done.out) == [1, 2, 1, 2]
    assert "Enter: end" in done.out


def test_a_name_shows_that_requests_memory(run_in_terminal):
    done = run_in_terminal("demo", "first one", "other", *TINY, typed="b\n\nB\n\nb\nb\nq\n")
    assert steps(done.out) == [1, 0, 1, 1, 2, 1, 0]
    assert [name for name in re.findall(r"What (.) sees", done.out)] == ["A", "A", "B", "B", "B"]


@pytest.mark.parametrize("typed", ["p\n", "\np\n"])
def test_p_plays_to_the_end(run_in_terminal, typed):
    done = run_in_terminal("demo", "Twelve more", *TINY, "--delay", "0", typed=typed)
    assert steps(done.out) == list(range(1, 13))


def test_play_asks_nothing(run_in_terminal):
    done = run_in_terminal("demo", "Twelve more", *TINY, "--play", "--delay", "0")
    assert steps(done.out) == list(range(1, 13)) and "Enter" not in done.out


def test_the_end_of_the_keyboards_input_quits(run_in_terminal):
    done = run_in_terminal("demo", "Twelve more", *TINY, typed="\n\x04")
    assert done.status == 0 and steps(done.out) == [1, 2]


def test_a_run_that_was_left_early_is_kept_up_to_there(run_in_terminal, tmp_path):
    path = tmp_path / "run.jsonl.gz"
    run_in_terminal("demo", "Twelve more", *TINY, "--save", path, typed="\n\nq\n")
    assert len(load(path).step_ends()) == 3


@pytest.mark.parametrize("columns", [80, 120])
def test_pictures_keep_to_the_terminals_width(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("demo", "Some rather long words that fill several blocks of the pool", *TINY).out.splitlines()
    assert max(map(len, lines)) <= columns


def test_no_color_is_obeyed(run_in_terminal, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = run_in_terminal("demo", "Twelve more", *TINY, "--play", "--delay", "0").out
    monkeypatch.setenv("NO_COLOR", "1")
    plain = run_in_terminal("demo", "Twelve more", *TINY, "--play", "--delay", "0").out
    assert re.search(r"\x1b\[[0-9;]*m", coloured)
    assert not re.search(r"\x1b\[[0-9;]*m", plain)


def test_a_terminal_without_unicode_shows_question_marks(monkeypatch, run):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(screen := io.BytesIO(), encoding="ascii"))
    assert run("demo", "Twelve more", "--model", "tiny-random", "--max-tokens", "1").status == 0
    assert b"A: finished" in screen.getvalue() and b"?" in screen.getvalue()


@pytest.mark.slow
def test_the_real_model_goes_on_with_the_sentence_about_memory(run):
    done = run("demo", "--max-tokens", "4", "--device", "cpu")
    assert done.status == 0
    assert "[memory]" in done.out and "[addresses]" in done.out and "live · CPU" in done.out
