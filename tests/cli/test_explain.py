"""`pagedlab explain`: what a person sees, and what wrong input gets."""

import gzip
import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from pagedlab.explain.reader import read_log
from pagedlab.explain.source import lines_of

LOGS = Path(__file__).parent.parent / "explain" / "logs"
NAMES = sorted(path.stem for path in LOGS.glob("*.log"))
PAGEDLAB = [sys.executable, "-m", "pagedlab", "explain"]
POOL = "INFO 05-14 00:04:18 [kv_cache_utils.py:1087] GPU KV cache size: 409,600 tokens\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_log_is_told_in_whole_lines_that_fit(run, name, monkeypatch):
    for columns in (40, 80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        done = run("explain", LOGS / f"{name}.log")
        assert (done.status, done.err) == (0, "")
        assert max(map(len, done.out.splitlines())) <= min(columns, 100)
        assert "\x1b" not in done.out and "None" not in done.out
        titles = ["WHAT FAILED", "WHERE THE MEMORY WENT", "THE POOL", "WHILE IT RAN"]
        assert [title for title in titles if title not in done.out] == []
        assert len(re.findall(r"^  [123]\. ", done.out, re.M)) == 3


@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_and_a_file_say_the_same(run, name):
    path = LOGS / f"{name}.log"
    assert run("explain", "-", stdin=path.read_bytes()).out == run("explain", path).out
    data = json.loads(run("explain", path, "--json").out)
    assert json.loads(run("explain", "-", "--json", stdin=path.read_bytes()).out) == data
    assert set(json.loads(path.with_suffix(".json").read_text())) | {"checks", "notes"} == set(data)


def test_what_the_log_does_not_say_is_said_to_be_missing(run):
    done = run("explain", "-", stdin=POOL)
    table = dict(re.findall(r"^  (?:  )?([\w ()',-]+?)  +(\S.*)$", done.out, re.M))
    assert table["tokens"] == "409,600" and table["block size"] == "16 tokens (vLLM's default)"
    for name in ("weights", "KV pool", "the card", "max_model_len", "bytes a token", "maximum concurrency"):
        assert table[name] == "not in this log", name
    assert "model not in this log" in " ".join(done.out.split())


def test_on_a_terminal_titles_are_bold_and_nothing_else_changes(run, run_in_terminal):
    path = LOGS / "a100-031-start.log"
    shown, plain = run_in_terminal("explain", str(path)).out, run("explain", path).out
    assert "\x1b[1mTHE POOL" in shown
    assert re.sub(r"\x1b\[\d*m", "", shown).split() == plain.split()


def test_the_readme_shows_what_the_command_prints(run, root, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    shown = re.search(r"```\n\$ pagedlab explain (\S+)\n(.*?)```", (root / "README.md").read_text(), re.S)
    assert run("explain", root / shown[1]).out == shown[2]


@pytest.mark.parametrize("content, words", [
    (b"", ["is empty"]),
    (b"\x7fELF\x02\x01\x00\x00", ["is binary"]),
    (gzip.compress(POOL.encode(), mtime=0), ["is compressed", "gzip -dc"]),
    (b"The quick brown fox\n", ["Nothing in", "line of vLLM"]),
    (b"INFO:     172.17.33.84:58856 - GET /metrics HTTP/1.1 200 OK\n" * 1000, ["Nothing in"]),
    (os.urandom(5000).replace(b"\0", b"\1"), ["Nothing in"]),
    (b"\xff\xfe" + b"\x00\xd8" * 40 + b"x", ["Nothing in"]),
    (b"x" * 300_000, ["Nothing in"]),
], ids=range(8))
def test_a_file_that_is_no_log_is_answered_in_a_sentence(run, tmp_path, content, words):
    path = tmp_path / "a.log"
    path.write_bytes(content)
    for argv, stdin in ((("explain", path), b""), (("explain", "-", "--json"), content)):
        done = run(*argv, stdin=stdin)
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        assert not [word for word in words if word not in done.err], done.err


@pytest.mark.parametrize("name, words", [
    ("nowhere.log", ["nowhere.log", "No such file"]), (".", ["directory"]), ("", ["is empty"]),
    ("x" * 5000, ["File name too long"]), ("a\0b", ["cannot be read"]), ("\x1b[2J", ["cannot be read"]),
])
def test_a_log_that_is_not_there_is_answered_in_a_sentence(run, tmp_path, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    done = run("explain", name)
    assert done.status == 2 and done.err.startswith("pagedlab: ") and done.err.count("\n") == 1
    assert not [word for word in words if word not in done.err], done.err
    assert "\x1b" not in done.err


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_how_windows_writes_a_file(run, tmp_path, encoding):
    path = tmp_path / "a.log"
    path.write_bytes(POOL.replace("\n", "\r\n").encode(encoding))
    assert json.loads(run("explain", path, "--json").out)["kv_cache_tokens"] == 409600


def test_bytes_that_are_no_text_do_not_hide_the_lines_around_them(run):
    done = run("explain", "-", "--json", stdin=b"\xff\xc3\x28\n" + POOL.encode() + b"\x80\n")
    assert json.loads(done.out)["kv_cache_tokens"] == 409600


def test_control_characters_of_a_log_do_not_reach_the_terminal(run):
    steers = "\x1b[2J\x9b\x07\u202e"
    text = (f"INFO 05-14 00:04:18 [core.py:1] Initializing a V1 LLM engine (v0.9.0{steers}) with config: "
            f"model='m{steers}'\n")
    for argv in (("explain", "-"), ("explain", "-", "--json")):
        done = run(*argv, stdin=text + POOL)
        assert done.status == 0 and not [char for char in done.out if char in "\x1b\x9b\x07\u202e"]


def test_a_long_log_is_read_line_by_line(tmp_path):
    path = tmp_path / "long.log"
    line = "(APIServer pid=1) INFO:     172.22.0.1:55090 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK " + "x" * 3000
    with path.open("w") as file:
        for _ in range(10_000):
            file.write(f"{line}\n")
        file.write(POOL)
    tracemalloc.start()
    try:
        assert read_log(lines_of(str(path))).kv_cache_tokens == 409600
        assert tracemalloc.get_traced_memory()[1] < 4_000_000 < path.stat().st_size / 7
    finally:
        tracemalloc.stop()


def test_a_reader_that_leaves_early_leaves_no_traceback():
    with subprocess.Popen([*PAGEDLAB, str(LOGS / "a100-031-start.log")], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:  # fmt: skip
        process.stdout.close()
        assert process.stderr.read() == b""


def test_it_loads_nothing_heavy():
    code = ("import sys\nfrom pagedlab.cli import main\ntry:\n    main(['explain', sys.argv[1]])\nexcept SystemExit:\n"
            "    pass\nprint('loaded', *sys.modules)")
    log = str(LOGS / "a100-031-start.log")
    done = subprocess.run([sys.executable, "-c", code, log], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rsplit("loaded", 1)[1].split())
    assert "pagedlab.explain.report" in loaded
    assert not loaded & {"torch", "triton", "numpy", "plotly", "tokenizers", "pagedlab.engine", "pagedlab.trace"}
