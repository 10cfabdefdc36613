"""Our manager and scheduler do what vLLM v0.32.0's did, in every field of every recording; and a difference is
found and told."""

import copy
import gzip
import json
from pathlib import Path

import pytest
from recordings import changed, write

from pagedlab import parity
from pagedlab.errors import PagedlabError
from pagedlab.parity import kv_trace, sched_trace
from pagedlab.parity.record import random_prompt, record
from pagedlab.parity.report import read_lines

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = sorted((GOLDEN / "vllm-0.32.0").glob("*.jsonl.gz"))


def test_all_sixteen_recordings_are_here():
    assert len(FILES) == 16


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_ours_is_identical_with_vllm_in_every_field(path, capsys):
    assert parity.run([path]) == 0
    assert "identical" in capsys.readouterr().out


@pytest.mark.slow
def test_greedy_tokens_are_those_of_transformers_alone_and_batched(capsys):
    assert parity.run([GOLDEN / "smollm2" / "greedy.jsonl"]) == 0
    assert "6 greedy continuations, alone and batched" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------- differences are found


def tampered(path):
    """For each kind of line and each field that tells a result: the file with that one field changed, in the middle
    of it."""
    lines = read_lines(path)
    seen = set()
    for i in range(len(lines) // 3, len(lines)):
        op = lines[i].get("op")
        for field in kv_trace.KVReplay.RESULTS[op] if op else sched_trace.FIELDS:
            if (op, field) not in seen:
                seen.add((op, field))
                copied = copy.deepcopy(lines)
                copied[i][field] = changed(copied[i][field])
                yield field, i + 1, copied


@pytest.mark.parametrize(("name", "num_fields"), [("kv-02", 21), ("kv-03", 18), ("sched-02", 10)])
def test_every_field_that_was_tampered_with_is_found_where_it_was(name, num_fields, tmp_path, capsys):
    count = 0
    for field, number, lines in tampered(GOLDEN / "vllm-0.32.0" / f"{name}.jsonl.gz"):
        assert parity.run([write(tmp_path / "tampered.jsonl.gz", lines)]) == 1
        output = capsys.readouterr().out
        assert f"line {number}" in output and f"field {field!r}" in output, output
        assert "vLLM: " in output and "pagedlab: " in output
        count += 1
    assert count == num_fields


@pytest.mark.parametrize("field", ["scheduled", "running", "waiting", "free", "tables"])
def test_another_order_is_a_difference(field, tmp_path, capsys):
    lines = read_lines(GOLDEN / "vllm-0.32.0" / "sched-02.jsonl.gz")
    i, line = next((i, line) for i, line in enumerate(lines) if i and len(line[field]) > 1)
    value = line[field]
    lines[i][field] = value[::-1] if isinstance(value, list) else dict(reversed(value.items()))
    assert parity.run([write(tmp_path / "tampered.jsonl.gz", lines)]) == 1
    assert f"field {field!r}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["kv-01", "sched-05"])
def test_other_settings_than_the_recorded_ones_give_a_difference(name, tmp_path):
    original = read_lines(GOLDEN / "vllm-0.32.0" / f"{name}.jsonl.gz")
    knobs = ["num_blocks", "block_size", "enable_caching"]
    knobs += ["max_num_seqs", "max_num_batched_tokens"] if name.startswith("sched") else []
    for knob in knobs:
        lines = copy.deepcopy(original)
        lines[0][knob] = changed(lines[0][knob])
        assert parity.run([write(tmp_path / "tampered.jsonl.gz", lines)]) == 1, knob


def test_a_recording_that_stops_too_early_is_a_difference(tmp_path, capsys):
    lines = read_lines(GOLDEN / "vllm-0.32.0" / "sched-01.jsonl.gz")
    assert parity.run([write(tmp_path / "short.jsonl.gz", lines[:-1])]) == 1
    assert "unfinished requests" in capsys.readouterr().out


def test_all_files_are_compared_and_one_difference_decides_the_status(tmp_path, capsys):
    lines = read_lines(FILES[0])
    lines[5]["free"] = []
    assert parity.run([write(tmp_path / "tampered.jsonl.gz", lines), FILES[1]]) == 1
    output = capsys.readouterr().out
    assert "DIFFERENT" in output and f"{FILES[1]}: identical" in output


# --------------------------------------------------------------------------------------------- unreadable files

KV = read_lines(GOLDEN / "vllm-0.32.0" / "kv-01.jsonl.gz")
SCHED = read_lines(GOLDEN / "vllm-0.32.0" / "sched-01.jsonl.gz")
GREEDY = {"prompt_ids": [1, 2], "output_ids": [3], "top2_gap": [0.5]}


def with_header(lines, **changes):
    return [lines[0] | changes, *lines[1:]]


BROKEN = {
    "an unknown engine": with_header(KV, engine="sglang 1.0 RadixCache"),
    "no engine": [{k: v for k, v in KV[0].items() if k != "engine"}, *KV[1:]],
    "no header": KV[1:],
    "a header without a pool size": [{k: v for k, v in KV[0].items() if k != "num_blocks"}, *KV[1:]],
    "a pool size in words": with_header(KV, num_blocks="many"),
    "a pool without room": with_header(KV, num_blocks=1),
    "a block size of 0": with_header(KV, block_size=0),
    "an unknown operation": [KV[0], {"op": "defragment"}],
    "an operation that is no string": [KV[0], {"op": ["add"]}],
    "a line without a field": [KV[0], {k: v for k, v in KV[1].items() if k != "free"}],
    "a request added twice": [KV[0], KV[1], KV[1]],
    "an unknown request": [KV[0], {"op": "free", "req": "r99", "free": [], "cached": []}],
    "a request freed while it waits": [
        *KV[:2],
        *({"op": op, "req": KV[1]["req"], "free": [*range(1, 16)], "cached": []} for op in ("preempt", "preempt")),
    ],
    "a decode while it waits": [
        *KV[:2],
        {"op": "preempt", "req": KV[1]["req"], "free": [*range(1, 16)], "cached": []},
        {"op": "decode", "req": KV[1]["req"], "token": 4, "allocated": True, "blocks": [1], "free": [], "cached": []},
    ],
    "a resume while it runs": [
        *KV[:2],
        {
            "op": "resume",
            "req": KV[1]["req"],
            "admitted": True,
            "num_computed": 0,
            "blocks": [1],
            "free": [],
            "cached": [],
        },
    ],
    "no tokens": [KV[0], KV[1] | {"tokens": []}],
    "tokens that are none": [KV[0], KV[1] | {"tokens": ["a"]}],
    "a token beyond 64 bits": [KV[0], KV[1] | {"tokens": [1 << 70] * 8}],
    "a decoded token beyond 64 bits": [*KV[:2], KV[3] | {"req": KV[1]["req"], "token": 1 << 70}],
    "a scheduler header without requests": [{k: v for k, v in SCHED[0].items() if k != "requests"}, *SCHED[1:]],
    "requests that are none": with_header(SCHED, requests=[3]),
    "a request without tokens": with_header(SCHED, requests=[SCHED[0]["requests"][0] | {"tokens": []}]),
    "a request that asks for nothing": with_header(SCHED, requests=[SCHED[0]["requests"][0] | {"max_tokens": 0}]),
    "a request beyond max_model_len": with_header(SCHED, max_model_len=8),
    "two requests of one name": with_header(SCHED, requests=SCHED[0]["requests"][:1] * 2),
    "no room for a request": with_header(SCHED, max_num_seqs=0),
    "a formula that is a program": with_header(SCHED, next_token="__import__('os').getpid()"),
    "a formula that never ends": with_header(SCHED, next_token="9**9**9**9"),
    "a formula of another name": with_header(SCHED, next_token="len(req)"),
    "a formula that is none": with_header(SCHED, next_token="position +"),
    "a formula that divides by 0": with_header(SCHED, next_token="position % 0"),
    "a step without a field": [SCHED[0], {k: v for k, v in SCHED[1].items() if k != "tables"}],
    "a continuation without gaps": [GREEDY | {"top2_gap": []}],
    "a continuation without tokens": [GREEDY | {"prompt_ids": []}],
    "a continuation in words": [GREEDY | {"output_ids": "hello"}],
}


@pytest.mark.parametrize("lines", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_recording_is_refused_in_one_sentence(lines, tmp_path):
    with pytest.raises(PagedlabError) as caught:
        parity.compare_file(write(tmp_path / "broken.jsonl.gz", lines))
    assert "broken.jsonl.gz" in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_refused_in_one_sentence(tmp_path):
    whole = FILES[0].read_bytes()
    broken = {
        "empty": b"",
        "cut.gz": whole[:-30],
        "flipped.gz": whole[:50] + b"\x00\x00" + whole[52:],
        "text": b"hello\n",
        "list": b"[1]\n",
        "cut-line": gzip.decompress(whole)[:-5],
        "magic.gz": b"\x1f\x8b",
        "latin": b"\xff\xff\xff",
    }
    for name, data in broken.items():
        (tmp_path / name).write_bytes(data)
    for name in [*broken, "missing", "."]:
        with pytest.raises(PagedlabError) as caught:
            parity.compare_file(tmp_path / name)
        assert "\n" not in str(caught.value), name


# -------------------------------------------------------------------------------------------------- the recorder


def test_the_recorder_says_when_vllm_is_not_installed(tmp_path):
    try:
        import vllm  # noqa: F401
    except ImportError:
        with pytest.raises(PagedlabError, match="vLLM is not installed here"):
            record(tmp_path / "out")
        assert not (tmp_path / "out").exists()
    else:
        files = record(tmp_path / "out", seed=5, count=2)
        assert len(files) == 4 and parity.run(files) == 0


def test_random_prompts_share_prefixes_and_keep_their_limit():
    from random import Random

    rng, prompts = Random(0), []
    for _ in range(300):
        assert 1 <= len(random_prompt(rng, prompts, 4, 30)) <= 30
    starts = [tuple(prompt[:4]) for prompt in prompts if len(prompt) >= 4]
    assert len(set(starts)) < len(starts) * 0.8


def test_an_operation_that_is_no_text_is_one_sentence(tmp_path):
    path = tmp_path / "odd.jsonl"
    header = {"kind": "header", "engine": "vllm v0.2.0 BlockSpaceManager", "num_gpu_blocks": 4, "num_cpu_blocks": 4,
              "block_size": 2, "watermark_blocks": 0}
    path.write_text(json.dumps(header) + '\n{"op": ["add"]}\n')
    with pytest.raises(PagedlabError, match="unknown operation"):
        parity.compare_file(path)
    path.write_text(json.dumps(header) + "\n" + "[" * 100_000 + "\n")
    with pytest.raises(PagedlabError, match="line 2"):
        parity.compare_file(path)
