"""Our whole engine does what vLLM's whole engine did, the real model's tokens included, in every field of every line of
every recording; and a difference is found and told."""

import copy
import dataclasses
from pathlib import Path

import pytest
from recordings import changed, write

from pagedlab import parity
from pagedlab.engine import LLM, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.executor.counting import CountingExecutor
from pagedlab.executor.torch_executor import TorchExecutor
from pagedlab.parity import live_trace, near_ties
from pagedlab.parity.live_trace import AHEAD, FIELDS, LiveReplay, check_header, check_rows, first_different_row
from pagedlab.parity.near_ties import FollowingExecutor
from pagedlab.parity.report import read_lines

GOLDEN = Path(__file__).parent.parent / "golden" / "vllm-live"
QUICK = ["sync-small-pool", "sync-idle"]
SLOW = ["sync-1", "sync-4", "sync-no-caching", "sync-blocks-of-64"]
AHEAD_QUICK = ["async-small-pool", "async-idle"]
AHEAD_SLOW = ["async-1", "async-4", "async-no-caching", "async-tight"]
LINES = read_lines(GOLDEN / "sync-small-pool.jsonl.gz")


@pytest.fixture(scope="module")
def model():
    return TorchExecutor("smollm2", device="cpu", dtype="float32")


@pytest.fixture
def loaded(model, monkeypatch):
    """The weights that each comparison would read again are read once."""
    monkeypatch.setattr(live_trace, "make_executor", lambda name, **kind: model.share())


@pytest.fixture(scope="module")
def ours(model):
    """What our engine does under the small recording's header."""
    executor = FollowingExecutor(model.share(), check_rows("it", LINES[1:]))
    return list(LiveReplay(LINES[0], "it", executor).rows())


def test_all_recordings_are_replayed():
    names = {*QUICK, *SLOW, *AHEAD_QUICK, *AHEAD_SLOW}
    assert {path.name.split(".")[0] for path in GOLDEN.glob("*.gz")} == names


def test_the_asynchronous_ones_have_between_them_what_only_they_can_have():
    seen = set()
    for name in (*AHEAD_QUICK, *AHEAD_SLOW):
        header, *lines = read_lines(GOLDEN / f"{name}.jsonl.gz")
        assert header["async_scheduling"] and header["batches_in_flight"] == 2
        for line in lines[:-1]:
            seen |= {"a victim whose output is under way"} if line["stale"] else set()
            if line["kind"] == "update":
                seen |= {"a token too many"} if line["sampled"].keys() - line["kept"].keys() else set()
                continue
            left_out = set(line["running"]) - set(line["scheduled"])
            coming = [name for name in left_out if line["placeholders"][name]]
            early = [name for name, count in line["tokens"].items()
                     if len(line["tables"].get(name, [])) * header["block_size"] >= count + header["block_size"]]
            seen |= {"a last token that is seen coming"} if coming else set()
            seen |= {"a block before its token"} if early else set()
            seen |= {name for name in ("preempted", "resumed") if line[name]}
    assert seen == {"a victim whose output is under way", "a token too many", "a last token that is seen coming",
                    "preempted", "resumed", "a block before its token"}  # fmt: skip


def test_the_synchronous_ones_have_between_them_all_that_can_happen():
    seen = set()
    for name in (*QUICK, *SLOW):
        header, *lines = read_lines(GOLDEN / f"{name}.jsonl.gz")
        seen |= {("caching", header["enable_caching"]), ("block_size", header["block_size"])}
        for line in lines[:-1]:
            prompts = {item["req"]: len(item["tokens"]) for item in header["requests"]}
            if line["kind"] == "update":
                seen |= {("finished", reason) for reason in line["finished"].values()}
                continue
            seen |= {name for name in ("preempted", "resumed") if line[name]}
            seen |= {"hit"} if any(line["new"].values()) else set()
            seen |= {"chunk"} if any(line["computed"][r] < prompts[r] for r in line["scheduled"]) else set()
            seen |= {"nobody"} if not line["scheduled"] else set()
        calls = [line["call"] for line in lines if line["kind"] == "schedule"]
        seen |= {"idle"} if calls != [*range(len(calls))] else set()
    assert seen == {"preempted", "resumed", "hit", "chunk", "nobody", "idle", ("finished", "stop"),
                    ("finished", "length"), ("caching", True), ("caching", False), ("block_size", 32),
                    ("block_size", 64)}  # fmt: skip


@pytest.mark.parametrize("name", [
    *QUICK, *AHEAD_QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in (*SLOW, *AHEAD_SLOW))
])  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_ours_is_identical_with_vllm_s_whole_engine(name, loaded, capsys):
    path = GOLDEN / f"{name}.jsonl.gz"
    assert parity.run([path]) == 0
    assert f"identical ({len(read_lines(path)) - 1} lines of vllm 0.32.0 LLMEngine on CPU)" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------- differences are found


TAMPERED = [(kind, field) for kind, fields in FIELDS.items() for field in fields if field != "kind"]


@pytest.mark.parametrize(("kind", "field"), TAMPERED, ids=str)
def test_every_field_that_was_tampered_with_is_found_where_it_was(kind, field, ours):
    lines = copy.deepcopy(LINES[1:])
    i = next(i for i in (*range(len(lines) // 3, len(lines)), len(lines) - 1) if lines[i]["kind"] == kind)
    lines[i][field] = changed(lines[i][field])
    assert (found := first_different_row(lines, ours)).field == field
    assert f"(line {i + 2})" in found.where
    assert first_different_row(LINES[1:], ours) is None


@pytest.mark.parametrize("field", ["scheduled", "start", "sampled", "kept", "free", "running"])
def test_another_order_is_a_difference(field, ours):
    lines = copy.deepcopy(LINES[1:])
    i, line = next((i, line) for i, line in enumerate(lines) if len(line.get(field, ())) > 1)
    value = line[field]
    lines[i][field] = value[::-1] if isinstance(value, list) else dict(reversed(value.items()))
    assert first_different_row(lines, ours).field == field


@pytest.mark.parametrize("field", ["tables", "computed", "tokens"])
def test_in_which_order_requests_are_kept_is_no_difference(field, ours):
    lines = [line | {field: dict(reversed(line.get(field, {}).items()))} for line in LINES[1:]]
    assert any(list(line[field]) != list(before.get(field, {})) for line, before in zip(lines, LINES[1:], strict=True))
    assert first_different_row(lines, ours) is None


@pytest.mark.parametrize("cut", [slice(10, 12), slice(-3, -1), slice(0, 1)], ids=str)
def test_lines_that_are_missing_or_twice_there_are_a_difference(cut, ours):
    lines = LINES[1:]
    missing = lines.copy()
    del missing[cut]
    assert first_different_row(missing, ours) is not None
    start = cut.indices(len(lines))[0]
    assert first_different_row([*lines[:start], *lines[cut], *lines[start:]], ours) is not None


@pytest.mark.parametrize("changes", [
    {"num_blocks": 7}, {"enable_caching": False, "num_blocks": 7}, {"max_num_seqs": 1}, {"max_num_batched_tokens": 47},
    {"block_size": 16, "num_blocks": 12}, {"stop_token_ids": []}, {"max_model_len": 95},
], ids=str)  # fmt: skip
def test_other_settings_than_the_recorded_ones_give_a_difference(changes, loaded, tmp_path, capsys):
    assert parity.run([write(tmp_path / "other.jsonl.gz", [LINES[0] | changes, *LINES[1:]])]) == 1
    assert "first difference at " in capsys.readouterr().out


def test_a_header_that_allows_more_than_all_its_requests_takes_no_memory_for_it(model):
    header = LINES[0] | {"max_num_seqs": 10**12, "max_num_batched_tokens": 10**12}
    config = LiveReplay(header, "it", FollowingExecutor(model.share(), {})).llm.config
    assert (config.max_num_seqs, config.max_num_batched_tokens) == (4, 4 * 8192)


def test_other_tokens_for_the_same_text_are_a_difference(loaded, tmp_path, capsys):
    requests = copy.deepcopy(LINES[0]["requests"])
    requests[2]["text"] += "!"
    assert parity.run([write(tmp_path / "other.jsonl.gz", [LINES[0] | {"requests": requests}, *LINES[1:]])]) == 1
    assert "request 'r2' (line 1), field 'tokens'" in capsys.readouterr().out


# --------------------------------------------------------------------------------------------------- near ties


def other_last_token(lines, token=9999):
    """The recording, but vLLM's last token of all was another."""
    lines = copy.deepcopy(lines)
    update = [line for line in lines if line["kind"] == "update" and line["sampled"]][-1]
    ((name, tokens),) = update["sampled"].items()
    assert update["finished"] == {name: "length"} and tokens != [token]
    update["sampled"] = update["kept"] = {name: [token]}
    lines[-1]["outputs"][name][-1] = token
    return lines


@pytest.mark.slow
def test_another_token_is_a_difference_and_where_the_logits_tie_it_is_followed(loaded, tmp_path, capsys, monkeypatch):
    path = write(tmp_path / "other.jsonl.gz", other_last_token(LINES))
    assert parity.run([path]) == 1
    assert "field 'sampled'" in capsys.readouterr().out
    monkeypatch.setattr(near_ties, "TIE", 1e3)
    assert parity.run([path]) == 0
    assert "; near ties taken as recorded: 1)" in capsys.readouterr().out


def test_a_near_tie_is_one_of_less_than_a_thousandth_and_of_a_token_that_there_is():
    logits = [0.0, 5.0, 4.9995, 4.998]
    assert [near_ties.is_near_tie(logits, 1, other) for other in (0, 1, 2, 3, 4)] == [False, True, True, False, False]


def test_the_run_goes_on_from_the_token_that_was_followed(monkeypatch):
    """The model here is a checksum over all that lies in memory, so one other token makes all later ones others."""
    own = LLM(device="counting", num_gpu_blocks_override=16)
    params = SamplingParams(max_tokens=6, ignore_eos=True)
    tokens = own.generate([1, 2, 3], params)[0].outputs[0].token_ids
    other = (tokens[1] + 1) % 256
    monkeypatch.setattr(near_ties, "TIE", 1e3)
    executor = FollowingExecutor(CountingExecutor(), {2: {"A": [other]}})
    llm = LLM(executor=executor, num_gpu_blocks_override=16)
    llm.add_request([1, 2, 3], params)
    for executor.schedule in range(1, 7):
        (output,) = llm.step()
    followed = output.outputs[0].token_ids
    prompt = [1, 2, 3, tokens[0], other]
    assert followed[:2] == [tokens[0], other] and executor.num_near_ties == 1
    assert followed[2:] == own.generate(prompt, dataclasses.replace(params, max_tokens=4))[0].outputs[0].token_ids


# ---------------------------------------------------------------------------------------------- what is no recording

HEADER, REQUEST = LINES[0], LINES[0]["requests"][0]


def with_request(**changes):
    return [HEADER | {"requests": [REQUEST | changes]}, *LINES[1:]]


def without(data, field):
    return {name: value for name, value in data.items() if name != field}


BROKEN = {
    "a run in 16 bits": [HEADER | {"dtype": "bfloat16"}, *LINES[1:]],
    "no word on how it was scheduled": [without(HEADER, "async_scheduling"), *LINES[1:]],
    "no requests": [without(HEADER, "requests"), *LINES[1:]],
    "requests that are none": [HEADER | {"requests": [3]}, *LINES[1:]],
    "two requests of one name": [HEADER | {"requests": [REQUEST, REQUEST]}, *LINES[1:]],
    "a request without text": [HEADER | {"requests": [without(REQUEST, "text")]}, *LINES[1:]],
    "a request without tokens": with_request(tokens=[]),
    "half a character": with_request(text="\ud800"),
    "a request that asks for nothing": with_request(max_tokens=0),
    "a prompt that leaves no room": [HEADER | {"max_model_len": 8}, *LINES[1:]],
    "a stop token that is none": [HEADER | {"stop_token_ids": ["."]}, *LINES[1:]],
    "a stop token beyond the vocabulary": [HEADER | {"stop_token_ids": [49_152]}, *LINES[1:]],
    "a pool without room": [HEADER | {"num_blocks": 1}, *LINES[1:]],
    "a block size of 0": [HEADER | {"block_size": 0}, *LINES[1:]],
    "no lines": [HEADER],
    "no end": LINES[:-1],
    "two ends": [*LINES, LINES[-1]],
    "an end in the middle": [*LINES[:3], LINES[-1], *LINES[3:]],
    "a line of no kind": [HEADER, without(LINES[1], "kind"), *LINES[2:]],
    "a line of another kind": [HEADER, LINES[1] | {"kind": ["schedule"]}, *LINES[2:]],
    "a line without a field": [*LINES[:2], without(LINES[2], "ref_cnt"), *LINES[3:]],
    "a line with a field too many": [*LINES[:2], LINES[2] | {"placeholders": {}}, *LINES[3:]],
    "tokens sampled that are none": [*LINES[:2], LINES[2] | {"sampled": {"r0": ["a"]}}, *LINES[3:]],
    "tokens sampled in no list": [*LINES[:2], LINES[2] | {"sampled": {"r0": 5}}, *LINES[3:]],
}


@pytest.mark.parametrize("lines", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.filterwarnings("ignore:The pool cannot hold")
def test_what_is_no_recording_is_refused_in_one_sentence(lines, loaded, tmp_path):
    with pytest.raises(PagedlabError) as caught:
        parity.compare_file(write(tmp_path / "broken.jsonl.gz", lines))
    assert "broken.jsonl.gz" in str(caught.value) and "\n" not in str(caught.value)


def test_a_recording_of_three_batches_under_way_is_refused_and_the_sentence_says_what_can_be_replayed():
    lines = read_lines(GOLDEN / "async-idle.jsonl.gz")
    check_header(lines[0], "it, line 1")
    with pytest.raises(PagedlabError, match="it, line 1: batches_in_flight is 3; our engine plans one step ahead"):
        check_header(lines[0] | {"batches_in_flight": 3}, "it, line 1")
    with pytest.raises(PagedlabError, match="'placeholders'"):
        check_rows("it", [without(lines[1], "placeholders"), *lines[2:]], ahead=True)


@pytest.mark.parametrize("field", AHEAD)
def test_a_change_in_what_is_under_way_is_found(field, model):
    header, *lines = read_lines(GOLDEN / "async-idle.jsonl.gz")
    executor = FollowingExecutor(model.share(), check_rows("it", lines, ahead=True))
    other = copy.deepcopy(lines[:12])
    other[9][field] = {"r0": 77}
    found = first_different_row(other, LiveReplay(header, "it", executor).rows())
    assert found.field == field and "(line 11)" in found.where


def test_a_synchronous_run_under_an_asynchronous_header_is_a_difference(loaded, tmp_path, capsys):
    ahead = {"placeholders": {}, "in_flight": {}, "stale": {}}
    lines = [line if line["kind"] == "end" else line | ahead for line in LINES[1:]]
    header = LINES[0] | {"async_scheduling": True, "batches_in_flight": 2}
    assert parity.run([write(tmp_path / "other.jsonl.gz", [header, *lines])]) == 1
    assert "first difference at schedule 1" in capsys.readouterr().out
