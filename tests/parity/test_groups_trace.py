"""Our manager over several groups does what vLLM's did, in every field of every recording; a difference is found."""

import copy
from pathlib import Path

import pytest
from recordings import changed, write

from pagedlab import parity
from pagedlab.errors import PagedlabError
from pagedlab.parity.groups_trace import GroupsReplay
from pagedlab.parity.report import read_lines

GOLDEN = Path(__file__).parent.parent / "golden" / "vllm-0.32.0-groups"
FILES = sorted(GOLDEN.glob("*.jsonl.gz"))
LINES = read_lines(FILES[0])


def test_all_five_recordings_are_here_and_between_them_have_every_kind_of_group():
    headers = [read_lines(path)[0] for path in FILES]
    kinds = [tuple(group["kind"] for group in header["groups"]) for header in headers]
    assert kinds == [("full", "sliding"), ("sliding",), ("sliding", "full", "sliding"), ("full", "sliding"), ("full",)]
    assert {header["retention_interval"] for header in headers} == {0, None, 8}
    assert {header["enable_caching"] for header in headers} == {True, False}
    assert {header["num_lookahead_tokens"] for header in headers} == {0, 3}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_ours_is_identical_with_vllm_in_every_field(path, capsys):
    assert parity.run([path]) == 0
    assert f"identical ({len(read_lines(path)) - 1} operations of vllm" in capsys.readouterr().out


FIELDS = [(op, field) for op, fields in GroupsReplay.RESULTS.items() for field in fields]


@pytest.mark.parametrize(("op", "field"), FIELDS, ids=str)
def test_every_field_that_was_tampered_with_is_found_where_it_was(op, field, tmp_path, capsys):
    lines = copy.deepcopy(LINES)
    i = next(i for i in [*range(len(lines) // 3, len(lines)), *range(1, len(lines))] if lines[i].get("op") == op)
    lines[i][field] = changed(lines[i][field])
    assert parity.run([write(tmp_path / "tampered.jsonl.gz", lines)]) == 1
    assert f"line {i + 1}," in (output := capsys.readouterr().out) and f"field {field!r}" in output


@pytest.mark.parametrize("changes", [
    {"groups": [{"kind": "full"}, {"kind": "sliding", "window": 9}]}, {"groups": [{"kind": "full"}]},
    {"groups": [{"kind": "sliding", "window": 10}, {"kind": "full"}]}, {"retention_interval": None},
    {"max_in_flight_tokens": None}, {"full_sequence_must_fit": False}, {"num_lookahead_tokens": 1}, {"num_blocks": 39},
    {"block_size": 5}, {"enable_caching": False},
], ids=str)  # fmt: skip
def test_other_settings_than_the_recorded_ones_give_a_difference(changes, tmp_path):
    assert parity.run([write(tmp_path / "other.jsonl.gz", [LINES[0] | changes, *LINES[1:]])]) == 1


def without(data, field):
    return {name: value for name, value in data.items() if name != field}


BROKEN = {
    "no groups": [LINES[0] | {"groups": []}, *LINES[1:]],
    "a group of no kind": [LINES[0] | {"groups": [{}]}, *LINES[1:]],
    "a group that is none": [LINES[0] | {"groups": [3]}, *LINES[1:]],
    "a window of none": [LINES[0] | {"groups": [{"kind": "sliding"}]}, *LINES[1:]],
    "a window of 0": [LINES[0] | {"groups": [{"kind": "sliding", "window": 0}]}, *LINES[1:]],
    "an interval that is none": [LINES[0] | {"retention_interval": "8"}, *LINES[1:]],
    "an interval inside a block": [LINES[0] | {"retention_interval": 6}, *LINES[1:]],
    "no word on the gate": [without(LINES[0], "full_sequence_must_fit"), *LINES[1:]],
    "a line without tables": [*LINES[:2], without(LINES[2], "tables"), *LINES[3:]],
    "a chunk of nobody": [LINES[0], {"op": "chunk", "req": "r9", "scheduled": 1, "allocated": True}
                          | {name: LINES[1][name] for name in ("tables", "free", "cached", "ref")}],
    "a chunk of nothing": [LINES[0], LINES[1] | {"scheduled": 0}],
    "more accepted than drafted": [*LINES[:2], {"op": "decode", "req": "r0", "token": 1, "drafts": 0, "accepted": [3],
                                                "allocated": True} | {n: LINES[1][n] for n in ("tables", "free",
                                                                                                "cached", "ref")}],
}  # fmt: skip


@pytest.mark.parametrize("lines", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_recording_is_refused_in_one_sentence(lines, tmp_path):
    with pytest.raises(PagedlabError) as caught:
        parity.compare_file(write(tmp_path / "broken.jsonl.gz", lines))
    assert "broken.jsonl.gz" in str(caught.value) and "\n" not in str(caught.value)
