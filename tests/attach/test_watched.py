"""What a watched server sends, read here: as it should be, with gaps, and as it cannot be."""

from types import SimpleNamespace

import pytest
import torch

from pagedlab.attach import WatchReader, attach, run, wire
from pagedlab.errors import PagedlabError
from pagedlab.trace import replay
from pagedlab.trace.events import SCHEMA_VERSION
from pagedlab.watch import header
from pagedlab.watch.hooks import MANAGER, POOL, RUNNER, SCHEDULER
from pagedlab.watch.publish import address_of
from pagedlab.watch.wire import NOTES, STATE, encode

CONFIG = {"num_blocks": 5, "block_size": 2, "era": "v1"}
HEADER = {"schema": SCHEMA_VERSION, "device": "CPU", "async_scheduling": False, "date": "today", "config": CONFIG}
SOURCES = {method: f"vllm:{method}" for method in (*POOL, *MANAGER, *SCHEDULER, *RUNNER)}
EMPTY = ("found", 0, [1, 2, 3, 4], [0] * 5, [], [], [])
ARRIVED = ("arrived", "one-0a1b2c3d", [7, 8, 9], 4)
PREFILL = (
    ("schedule", 1.0), ("allocated", ARRIVED[1], [1, 2]), ("scheduled", [[ARRIVED[1], 0, 3, [1, 2]]], 2.0),
    ("update", [[ARRIVED[1], [5]]]), ("updated", 3.0),
)  # fmt: skip


def state(number=0, header=HEADER, sources=SOURCES, texts=(), note=EMPTY):
    return encode(STATE, number, header, sources, dict(texts), note)


def notes(number, *notes, texts=()):
    return encode(NOTES, number, dict(texts), notes)


def read(*messages):
    reader = WatchReader("here")
    for message in messages:
        reader.take(message)
    return reader


def test_a_request_that_arrives_and_is_prefilled():
    reader = read(state(), notes(1, ARRIVED, texts={7: "The", 8: " page", 9: " table"}), notes(2, *PREFILL))
    memory = replay(reader.trace)
    assert memory.tables == {"one": [1, 2]} and memory.free == [3, 4] and not reader.lost
    assert memory.requests["one"].texts == ["The", " page", " table", "<5>"]


def test_what_was_sent_before_the_state_is_in_it_and_a_gap_is_noticed_and_counted():
    reader = read(notes(1, ARRIVED), state(1), notes(1, ARRIVED))
    assert not replay(reader.trace).requests
    reader.take(notes(4, ARRIVED))
    reader.take(notes(5, *PREFILL))
    assert reader.lost and len(reader.trace.events) == 1
    reader.take(state(6))
    assert not reader.lost and reader.trace.events[-1].num_missed == 2


def test_a_newcomers_state_is_nothing_new():
    reader = read(state(), notes(1, ARRIVED), state(1))
    assert [event.kind for event in reader.trace.events].count("pool_found") == 1


@pytest.mark.parametrize("messages, words", [
    ([(STATE, bytes(8), b"\x94")], "not a watched server's"),
    ([(STATE, b"\0", b"\x90")], "not a watched server's"),
    ([(b"other", bytes(8), b"\x90")], "not a watched server's"),
    ([state(header=None)], "another version of pagedlab"),
    ([state(header={})], "another version of pagedlab"),
    ([state(header=HEADER | {"schema": SCHEMA_VERSION + 1})], "another version of pagedlab"),
    ([state(header=HEADER | {"config": {"num_blocks": 10**9, "block_size": 16}})], "more than can be shown"),
    ([state(header={k: v for k, v in HEADER.items() if k != "async_scheduling"})], "same version"),
    ([state(header=HEADER | {"date": 5})], "broken header"),
    ([state(sources={})], "same version"),
    ([state(note=("found", 0))], "same version"),
    ([state(note=None)], "same version"),
    ([state(), notes(1, ("a kind to come", 1))], "same version"),
    ([state(), notes(1, ("arrived",))], "same version"),
    ([state(), notes(1, ("preempted", "nobody"))], "same version"),
    ([state(), encode(NOTES, 1, {}, None)], "same version"),
    ([state(), state(1, HEADER | {"date": "later", "config": CONFIG | {"num_blocks": 7}})], "another pool"),
], ids=range(17))  # fmt: skip
def test_a_message_that_cannot_be_is_one_sentence(messages, words, tmp_path):
    with pytest.raises(PagedlabError, match=words) as caught:
        read(*messages)
    assert str(caught.value).count("here") == 1 and "\n" not in str(caught.value)
    with (tmp_path / "stream").open("wb") as file:
        for message in messages:
            wire.write_frames(file, message)
    if messages[0][0] == STATE:
        with pytest.raises(PagedlabError, match=words):
            attach(tmp_path / "stream")


def test_a_server_that_contradicts_itself_is_one_sentence_in_the_terminal(tmp_path):
    with (tmp_path / "stream").open("wb") as file:
        for message in (state(), notes(1, ARRIVED, ("allocated", ARRIVED[1], [4]))):
            wire.write_frames(file, message)
    with pytest.raises(PagedlabError, match="contradicts itself"):
        run(str(tmp_path / "stream"))


def test_who_has_not_heard_how_everything_stands_has_no_trace(tmp_path):
    with (tmp_path / "stream").open("wb") as file:
        wire.write_frames(file, notes(1, ARRIVED))
    with pytest.raises(PagedlabError, match="has not said yet how everything stands"):
        attach(tmp_path / "stream")


@pytest.mark.parametrize("wrong", [
    {"seconds": -1}, {"seconds": float("nan")}, {"seconds": "2"}, {"max_batches": 0}, {"max_batches": 1.5},
    {"max_batches": "a"}, {"topic": 5}, {"topic": b"kv"}, {"topic": "\udcff"},
], ids=str)  # fmt: skip
def test_settings_that_cannot_be_are_refused_at_once(wrong):
    with pytest.raises(PagedlabError, match=next(iter(wrong)) + "|is no topic"):
        attach("tcp://127.0.0.1:9", **({"seconds": 0.1} | wrong))


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_name_that_no_file_can_have_is_refused(name):
    with pytest.raises(PagedlabError, match="cannot be read: "):
        attach(name)


@pytest.mark.parametrize(
    "address, own",
    [
        ("tcp://127.0.0.1:5558", "tcp://127.0.0.1:5560"),
        ("tcp://[::1]:5558", "tcp://[::1]:5560"),
        ("ipc:///tmp/pagedlab", "ipc:///tmp/pagedlab_dp2"),
        ("tcp://127.0.0.1:*", "tcp://127.0.0.1:*"),
        ("tcp://127.0.0.1:0", "tcp://127.0.0.1:0"),
        ("tcp://nowhere", "tcp://nowhere"),  # no address: whoever binds it says so
    ],
)
def test_each_engine_of_a_server_has_an_address_of_its_own(address, own):
    assert address_of(address, 2) == own and address_of(address, 0) == address


def test_a_device_that_its_platform_handles_has_a_name_too():
    """vLLM's configuration holds no torch.device for such a one (config/device.py)."""
    assert header._device(SimpleNamespace(device_type="tpu", device=None)) == "TPU"
    assert header._device(SimpleNamespace(device_type="cpu", device=torch.device("cpu"))) == "CPU"
