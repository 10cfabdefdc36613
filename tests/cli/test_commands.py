"""The commands that others compute for: options and exit status. What they compute is tested where it lives."""

import gzip
import json
import os

import pytest
import torch

from pagedlab import parity
from pagedlab.trace import load


@pytest.fixture
def recording(root):
    return root / "tests" / "golden" / "vllm-0.32.0" / "kv-01.jsonl.gz"


def test_parity_of_identical_decisions_is_status_0(run, recording):
    done = run("parity", recording)
    assert (done.status, done.err) == (0, "") and "identical" in done.out


def test_parity_without_files_replays_the_recordings_in_the_package(run, monkeypatch):
    """The short ones of them; ``tests/parity`` replays them all."""
    short = [path for path in parity.in_package() if path.name.startswith(("kv", "sched"))]
    monkeypatch.setattr(parity, "in_package", lambda: short)
    done = run("parity")
    assert (done.status, done.err) == (0, "")
    names, lines = ("kv-01", "sched-02"), done.out.splitlines()
    assert [f"{name}.jsonl.gz: identical" in line for name, line in zip(names, lines, strict=True)] == [True] * 2


def test_parity_prints_the_first_difference_and_ends_with_status_1(run, recording, tmp_path):
    lines = [json.loads(line) for line in gzip.decompress(recording.read_bytes()).decode().splitlines()]
    lines[5]["free"].reverse()
    path = tmp_path / "changed.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    done = run("parity", recording, path)
    assert done.status == 1
    assert f"{path}: DIFFERENT" in done.out and f"{recording}: identical" in done.out


def test_parity_goes_on_after_a_file_that_cannot_be_read_and_ends_with_status_2(run, recording, tmp_path):
    (tmp_path / "empty.jsonl").touch()
    done = run("parity", tmp_path / "nowhere.jsonl", recording, tmp_path / "empty.jsonl", recording)
    assert done.status == 2 and done.out.count(": identical") == 2
    assert [word in line for word, line in zip(("nowhere", "empty"), done.err.splitlines(), strict=True)] == [True] * 2


@pytest.mark.slow
def test_parity_at_a_terminal_says_how_far_it_is_and_takes_that_away(run_in_terminal, root):
    done = run_in_terminal("parity", root / "tests/golden/vllm-live/sync-1.jsonl.gz")
    shown = done.out.split("\r\x1b[K")
    rows = [text for text in shown if text.startswith("sync-1.jsonl.gz, row ")]
    assert rows[0].endswith(" 1 of 295") and rows[-1].endswith(" 295 of 295") and len(rows) == 295
    assert done.status == 0 and shown[-1].endswith("LLMEngine on CPU)\n") and "row" not in shown[-1]


@pytest.mark.parametrize("wish, policy", [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_paritys_threads_do_not_spin_unless_one_wishes(run, recording, monkeypatch, wish, policy):
    monkeypatch.setenv("OMP_WAIT_POLICY", "")  # put back afterwards
    monkeypatch.delenv("OMP_WAIT_POLICY") if wish is None else monkeypatch.setenv("OMP_WAIT_POLICY", wish)
    seen = []
    monkeypatch.setattr(parity, "run", lambda paths, ranks: seen.append(os.environ.get("OMP_WAIT_POLICY")) or 0)
    assert run("parity", recording).status == 0 and seen == [policy]


def test_bench_kv_prints_one_json_object_where_asked(run):
    done = run("bench", "kv", "--rounds", "1", "--json")
    assert done.status == 0 and json.loads(done.out)["benchmark"] == "kv"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU, and so it would be measured")
def test_gpu_check_without_a_gpu_says_what_is_possible_and_writes_nothing(run, tmp_path):
    done = run("gpu-check", "--out", tmp_path / "out")
    assert done.status == 2 and "No CUDA device" in done.err
    assert "--compile-only" in done.err and "--webgpu" in done.err
    assert not (tmp_path / "out").exists()


def test_attach_reads_a_file_of_events_and_keeps_the_trace(run, tmp_path):
    from pagedlab.attach import KVEventPublisher
    from pagedlab.engine import LLM

    llm = LLM("tiny-random", device="cpu", record=True, block_size=4, num_gpu_blocks_override=16)
    publisher = KVEventPublisher(str(tmp_path / "run.events"))
    llm.recorder.subscribe(publisher)
    llm.generate("twelve bytes")
    publisher.close()
    done = run("attach", tmp_path / "run.events", "--out", tmp_path / "run.jsonl", "--max-batches", "1")
    assert done.status == 0 and "batch 0: 3 blocks stored" in done.out
    assert [event.kind for event in load(tmp_path / "run.jsonl").events].count("prefix_stored") == 3


def test_attach_to_an_address_where_nothing_comes_says_so_and_ends_with_status_1(run, tmp_path):
    done = run("attach", "tcp://127.0.0.1:9", "--seconds", "0.3", "--out", tmp_path / "run.jsonl")
    assert done.status == 1 and "nothing came from tcp://127.0.0.1:9 in 0." in done.err
    assert "Waiting for events" in done.out and not (tmp_path / "run.jsonl").exists()


def test_attach_to_a_file_without_events_says_so_and_ends_with_status_1(run, tmp_path):
    (tmp_path / "empty.events").touch()
    done = run("attach", tmp_path / "empty.events")
    assert done.status == 1 and "holds no KV events" in done.err


@pytest.mark.parametrize("argv, words", [
    (["grade", "nowhere.ipynb"], ["nowhere.ipynb"]),
    (["grade", "."], ["no notebook"]),
    (["grade", ".", "--min-score", "101"], ["101", "percent"]),
    (["bench", "kv", "--rounds", "0"], ["rounds is 0"]),
    (["bench", "fragmentation", "--requests", "1"], ["requests is 1", "at least 100"]),
    (["bench", "sharing", "--n", "1"], ["n is 1", "fewer than 2"]),
    (["bench", "paging", "--model", "tiny-random", "--steps", "600"], ["steps is 600", "allowed are 1 to 510"]),
    (["attach", "nowhere.events"], ["nowhere.events", "tcp://localhost:5557"]),
    (["attach", "nonsense://x", "--seconds", "0"], ["nonsense://x", "tcp://localhost:5557"]),
    (["gpu-check", "--webgpu", "--compile-only"], ["--compile-only compiles", "--webgpu runs", "give one of the two"]),
])
def test_what_cannot_be_done_is_status_2_and_a_sentence(run, tmp_path, monkeypatch, argv, words):
    monkeypatch.chdir(tmp_path)
    done = run(*argv)
    assert done.status == 2 and not [word for word in words if word not in done.err], done.err
