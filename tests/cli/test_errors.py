"""Wrong input: one clear sentence on standard error, status 2, no traceback; what is no error stays quiet."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest

TINY = ("--model", "tiny-random", "--device", "cpu")
PAGEDLAB = [sys.executable, "-m", "pagedlab"]


@pytest.mark.parametrize("argv, words", [
    (["generate", "hi", "--model", "smolm2"], ["smolm2", "smollm2", "tiny-random", "folder"]),
    (["generate", "hi", "--model", "."], ["config.json"]),
    (["generate", "word " * 200, *TINY], ["1000 tokens", "512", "511"]),
    (["generate", "hi", *TINY, "--max-tokens", "200", "--num-gpu-blocks-override", "4"], ["need 13 blocks", "3"]),
    (["demo", "hi", *TINY, "--max-tokens", "40", "--num-gpu-blocks-override", "4"], ["need 11 blocks", "3"]),
    (["generate", "hi", *TINY, "--num-gpu-blocks-override", "1"], ["num_gpu_blocks_override", "at least 2"]),
    (["generate", "hi", *TINY, "--max-tokens", "0"], ["max_tokens is 0", "at least 1"]),
    (["demo", "hi", *TINY, "--max-tokens", "0"], ["max_tokens is 0", "at least 1"]),
    (["demo", "hi", *TINY, "--block-size", "0"], ["block_size is 0", "at least 1"]),
    (["generate", ""], ["empty"]),
    (["generate", "-"], ["empty"]),
    (["demo", "good", ""], ["empty"]),
    (["generate", "hi\udcff"], ["UTF-8", "character 2"]),
    (["generate", "hi", *TINY, "--temperature", "-1"], ["temperature is -1"]),
    (["generate", "hi", *TINY, "--top-p", "1.5"], ["top_p is 1.5"]),
    (["generate", "hi", *TINY, "--stop-token-ids", "-1"], ["stop_token_ids is [-1]", "list of token ids"]),
    (["generate", "hi", *TINY, "--stop-token-ids", "5", "--stop-token-ids", "259"], ["stop_token_ids", "0 to 258"]),
    (["generate", "hi", "--device", "gpu"], ["'gpu'", "cpu, cuda"]),
    (["demo", "--trace", "nowhere.jsonl.gz"], ["nowhere.jsonl.gz"]),
    (["demo", "hi", "--trace", "run.jsonl"], ["--trace", "leave out the prompt"]),
    (["demo", *TINY, "--max-tokens", "1", "--save", "nowhere/run.jsonl"], ["nowhere", "cannot be written"]),
    (["generate", "hi", *TINY, "--num-gpu-blocks-override", "1000000000000"], ["no memory", "num_gpu_blocks_override"]),
    (["generate", "hi", "--model", "x" * 5000], ["unknown model", "tiny-random"]),
    (["demo", "--trace", "x" * 5000], ["File name too long"]),
    (["demo", "hi", *TINY, "--save", "/dev/null"], ["/dev/null", "cannot be written"]),
    (["attach", "tcp://localhost:1", "--seconds", "9", "--out", "nowhere/run.jsonl"], ["nowhere", "cannot be written"]),
    (["parity", "run.jsonl", "--record", "recordings"], ["--record", "not both"]),
    (["parity", "nowhere.jsonl.gz"], ["nowhere.jsonl.gz"]),
    (["parity", "--seed", "3"], ["--seed", "--record FOLDER"]),
    (["parity", "run.jsonl", "--count", "0"], ["--count", "--record FOLDER"]),
])
def test_wrong_input_is_answered_in_a_sentence_with_status_2(run, argv, words):
    done = run(*argv)
    assert done.status == 2
    assert done.err.startswith("pagedlab: ") and done.err.count("\n") == 1
    assert not [word for word in words if word not in done.err], done.err


def test_a_device_that_the_environment_names_is_used_or_refused_like_one_that_is_given(run, monkeypatch):
    few = ("generate", "hi", "--model", "tiny-random", "--max-tokens", "2", "--num-gpu-blocks-override", "4")
    monkeypatch.setenv("PAGEDLAB_DEVICE", "gpu")
    done = run(*few)
    assert done.status == 2 and "Unknown device 'gpu' in PAGEDLAB_DEVICE; allowed are auto, cpu, " in done.err
    assert run(*few, "--device", "cpu").status == 0
    for device in ("", "auto", "cpu"):
        monkeypatch.setenv("PAGEDLAB_DEVICE", device)
        assert run(*few).status == 0


@pytest.mark.parametrize("argv", [
    ["generate"], ["generate", "hi", "--max-tokens", "many"], ["genrate"], ["demo", "--no"], ["grade"]])
def test_wrong_usage_is_answered_with_status_2_and_points_to_the_help(run, argv):
    done = run(*argv)
    assert done.status == 2 and "-h" in done.err and "Traceback" not in done.err


STEERS = "\x1b[2J\x9b\x07\u202e"
ALONE = json.dumps({"kind": "header", "engine": f"{STEERS}V1 Scheduler"})


@pytest.mark.parametrize("argv", [
    ["generate", "hi", "--model", STEERS], ["generate", "hi", "--device", STEERS], ["generate", STEERS, *TINY],
    ["generate", "hi", "--max-tokens", STEERS], ["generate", f"--{STEERS}"], [STEERS], ["grade", STEERS],
    ["parity", STEERS], ["parity", f"{STEERS}.jsonl"], ["demo", "--trace", STEERS],
    ["demo", "hi", *TINY, "--max-tokens", "1", "--save", STEERS],
    ["attach", f"tcp://{STEERS}"], ["attach", STEERS], ["gpu-check", "--compile-only", "--out", f"/dev/null/{STEERS}"],
    ["bench", STEERS], ["demo", STEERS, *TINY, "--max-tokens", "1"],
], ids=repr)
def test_control_characters_of_whatever_was_given_do_not_reach_the_terminal(run, argv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{STEERS}.jsonl").write_text(f"{ALONE}\n{{}}\n")
    done = run(*argv)
    shown = done.err + ("" if argv[:2] == ["generate", STEERS] else done.out)  # an answer goes to a file as it is
    assert not [char for char in shown if char in "\x1b\x9b\x07\u202e"]
    assert "Traceback" not in done.err


def header(**changes) -> str:
    return json.dumps({"kind": "header", "schema": 1, "config": {"num_blocks": 4, "block_size": 2}} | changes)


CONTRADICTION = "\n".join([
    header(),
    '{"kind": "step_started", "step": 1}',
    '{"kind": "blocks_freed", "request_id": "A", "block_ids": [99], "to_head": [], "to_tail": [99]}',
    '{"kind": "step_ended", "step": 1, "num_tokens": 1, "seconds": 1, "device": "CPU"}',
])


@pytest.mark.parametrize("content, words", [
    (gzip.compress(header().encode(), mtime=0)[:20], ["not a readable trace"]),
    (b"not json", ["line 1"]),
    (b"{}", ["no header"]),
    (header(schema=0).encode(), ["schema 0", "Record it again"]),
    (header(config={}).encode(), ["broken header"]),
    (f'{header()}\n{{"kind": "no_such_kind"}}'.encode(), ["line 2", "no_such_kind"]),
    (header().encode(), ["no finished step"]),
    (CONTRADICTION.encode(), ["contradicts itself", "99"]),
])
def test_a_corrupt_or_older_trace_is_refused_and_the_file_is_named(run, tmp_path, content, words):
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    done = run("demo", "--trace", path)
    assert done.status == 2
    assert done.err.count("\n") == 1 and "Traceback" not in done.err
    assert not [word for word in [str(path), *words] if word not in done.err], done.err


def test_an_unexpected_error_keeps_its_traceback(monkeypatch):
    from pagedlab import doctor
    from pagedlab.cli import main

    def broken():
        raise ZeroDivisionError

    monkeypatch.setattr(doctor, "examine", broken)
    with pytest.raises(ZeroDivisionError):
        main(["doctor"])


def test_the_real_command_prints_no_traceback_and_the_status_is_2():
    done = subprocess.run([*PAGEDLAB, "generate", ""], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pagedlab: The prompt is empty. Give at least one character.\n"


def test_a_reader_that_leaves_early_is_no_error_worth_a_word():
    with subprocess.Popen([*PAGEDLAB, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""


def test_ctrl_c_ends_quietly_with_status_130():
    # It waits for its standard input, and so is certainly inside the command when the signal comes. (A shell may have
    # told its children to ignore Ctrl-C.)
    ready = ("import signal, sys, pagedlab.cli as c; signal.signal(signal.SIGINT, signal.default_int_handler); "
             "sys.stderr.write('ready'); sys.stderr.flush(); c.main(['generate', '-'])")
    process = subprocess.Popen(
        [sys.executable, "-c", ready], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        assert process.stderr.read(5) == b"ready"
        while not _sleeps(process.pid):
            pass
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stdout.read() == process.stderr.read() == b""


def _sleeps(pid: int) -> bool:
    """Does the process wait for something? (Linux says so; elsewhere a moment has to do.)"""
    time.sleep(0.1)
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "S"
    except FileNotFoundError:
        time.sleep(1)
        return True


def test_a_full_disk_is_one_sentence_and_status_1():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PAGEDLAB, "generate", "hi", *TINY], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "No space left" in done.stderr and "Traceback" not in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_standard_streams_that_are_closed_leave_no_traceback(closed):
    command = f'"{sys.executable}" -m pagedlab generate - --model tiny-random --max-tokens 2 {closed}'
    done = subprocess.run(["sh", "-c", command], input="hi", capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if closed == "<&-" else 0)  # without standard input the prompt is empty


def test_a_cache_folder_of_a_user_who_does_not_exist_is_no_traceback(run, monkeypatch):
    monkeypatch.setenv("PAGEDLAB_CACHE", "~nobody-of-that-name/cache")
    done = run("doctor")
    assert done.status == 0 and not done.err
