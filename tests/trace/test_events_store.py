"""Every kind of event survives a file; whatever is not a trace of this version is turned away in one sentence."""

import dataclasses
import gzip
import json
import os
import sys
import typing

import numpy as np
import pytest

from pagedlab.errors import PagedlabError
from pagedlab.trace import Trace, load, replay, save
from pagedlab.trace import events as ev

HEADER = {"schema": ev.SCHEMA_VERSION, "device": "CPU", "config": {"num_blocks": 8, "block_size": 4}}


def example(hint):
    """A value of a field's type; text with what JSON and UTF-8 could trip over."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is str:
        return 'a "quoted" naïve\nline \u2028 🂡'
    if hint in (int, float, bool):
        return hint(1)
    if origin is tuple:
        return tuple(example(args[0]) for _ in range(2))
    return example(args[0])  # a union: its first kind


def examples():
    for cls in ev.EVENT_TYPES.values():
        hints = {
            name: hint
            for name, hint in typing.get_type_hints(cls).items()
            if typing.get_origin(hint) is not typing.ClassVar
        }
        yield cls(**{name: example(hint) for name, hint in hints.items()})
        for name, hint in hints.items():
            if type(None) in typing.get_args(hint):
                yield cls(**{n: example(h) for n, h in hints.items()} | {name: None})


def test_every_kind_of_event_says_what_it_is_and_is_folded_into_the_state():
    """The first two steps of CONTRIBUTING's recipe for a new event."""
    assert set(sys.modules[replay.__module__]._HANDLERS) == set(ev.EVENT_TYPES.values())
    assert all(cls.__doc__ and not cls.__doc__.startswith(cls.__name__) for cls in ev.EVENT_TYPES.values())
    assert ev.READABLE == tuple(range(1, ev.SCHEMA_VERSION + 1))


@pytest.mark.parametrize("schema", ev.READABLE)
def test_a_trace_of_an_older_schema_is_read(tmp_path, schema):
    (tmp_path / "run.jsonl").write_bytes(with_header(schema=schema) + b'{"kind": "step_started", "step": 1}\n')
    trace = load(tmp_path / "run.jsonl")
    assert trace.events == [ev.StepStarted(step=1)] and trace.header["schema"] == schema


def test_numbers_of_numpy_in_an_event_are_written_as_plain_ones(tmp_path):
    plain = ev.BlocksAllocated(block_ids=(3, 4), request_id="A", source="x")
    strange = dataclasses.replace(plain, block_ids=(np.int64(3), 4))
    assert load(save(Trace(dict(HEADER), [strange]), tmp_path / "run.jsonl")).events == [plain]


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_every_kind_of_event_comes_back_from_a_file_as_it_was(tmp_path, name):
    trace = Trace(dict(HEADER), list(examples()))
    assert {event.kind for event in trace.events} == set(ev.EVENT_TYPES)
    back = load(save(trace, tmp_path / name))
    assert back.events == trace.events
    assert back.header == HEADER | {"live": False}


def test_the_same_trace_gives_the_same_bytes(tmp_path):
    trace = Trace(dict(HEADER), list(examples()))
    assert save(trace, tmp_path / "a.jsonl.gz").read_bytes() == save(trace, tmp_path / "b.jsonl.gz").read_bytes()


def whole() -> bytes:
    lines = [{"kind": "header", **HEADER}, *map(ev.to_dict, examples())]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def with_header(**changes) -> bytes:
    return json.dumps({"kind": "header", **HEADER} | changes).encode() + b"\n"


BROKEN = {
    "empty": b"",
    "an empty gzip file": gzip.compress(b""),
    "not UTF-8": b"\xff\xfe\x00",
    "not JSON": b"hello\n",
    "a JSON list": b"[1, 2]\n",
    "no header": json.dumps(ev.to_dict(ev.StepStarted(step=1))).encode() + b"\n",
    "an older schema": with_header(schema=0),
    "a newer schema": with_header(schema=ev.SCHEMA_VERSION + 1),
    "no schema": with_header(schema=None),
    "no config": with_header(config=None),
    "a config without a pool": with_header(config={"block_size": 4}),
    "a pool beyond memory": with_header(config={"num_blocks": 10**13, "block_size": 4}),
    "a pool of 0 blocks": with_header(config={"num_blocks": 0, "block_size": 4}),
    "cut off in a line": whole()[:-20],
    "a gzip stream cut off": gzip.compress(whole())[:-20],
    "a gzip stream with a flipped byte": (lambda b: b[:40] + bytes([b[40] ^ 255]) + b[41:])(gzip.compress(whole())),
    "gzip's first bytes and nothing behind": b"\x1f\x8b",
    "an unknown kind": with_header() + b'{"kind": "block_melted"}\n',
    "a kind that is no string": with_header() + b'{"kind": ["header"]}\n',
    "an unknown field": with_header() + b'{"kind": "step_started", "step": 1, "speed": 3}\n',
    "a missing field": with_header() + b'{"kind": "step_started"}\n',
    "a field of the wrong type": with_header() + b'{"kind": "step_started", "step": "one"}\n',
    "true for a number": with_header() + b'{"kind": "step_started", "step": true}\n',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_is_no_trace_is_refused_in_one_sentence(tmp_path, data):
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(PagedlabError) as caught:
        load(path)
    assert "run.jsonl.gz" in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "none.jsonl.gz", tmp_path):
        with pytest.raises(PagedlabError):
            load(path)


def test_what_cannot_be_written_is_an_error_and_leaves_nothing_behind(tmp_path):
    with pytest.raises(PagedlabError):
        save(Trace(dict(HEADER)), tmp_path / "no such folder" / "run.jsonl.gz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    ['{"kind":' + "[" * 100_000, '{"kind": "header", "schema": ' + "1" * 5000 + "}"],
    ids=["brackets", "digits"],
)
def test_a_first_line_that_json_itself_gives_up_on_is_one_sentence(tmp_path, line):
    path = tmp_path / "odd.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(PagedlabError, match="line 1"):
        load(path)


@pytest.mark.parametrize(
    "change",
    [{"device": 5}, {"date": 5}, {"dtype": []}, {"model_shape": 5}, {"config": {"num_blocks": 4, "block_size": True}},
     {"config": {"num_blocks": 4, "block_size": 2, "num_cpu_blocks": "x"}},
     {"config": {"num_blocks": 4, "block_size": 2, "num_cpu_blocks": -1}}],
    ids=str,
)
def test_a_header_with_values_of_a_wrong_type_is_refused(tmp_path, change):
    path = tmp_path / "odd.jsonl"
    header = {"kind": "header", "schema": 1, "config": {"num_blocks": 4, "block_size": 2}}
    path.write_text(json.dumps(header | change) + "\n")
    with pytest.raises(PagedlabError, match="header"):
        load(path)


def test_an_event_with_a_negative_number_is_refused():
    with pytest.raises(ValueError, match="block_ids"):
        ev.from_dict({"kind": "blocks_allocated", "request_id": "A", "block_ids": [-1]})


def test_what_is_no_plain_file_is_not_replaced_by_a_trace(tmp_path):
    trace = Trace({"schema": 1, "config": {"num_blocks": 4, "block_size": 2}})
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, ".", "/", "", "\0", "x" * 300):
        with pytest.raises(PagedlabError, match="written"):
            save(trace, path)
    assert pipe.is_fifo()
    with pytest.raises(PagedlabError):
        load("\0")
