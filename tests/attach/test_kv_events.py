"""KV events in vLLM v0.32.0's own bytes: what it told is read right, and ours tells the same."""

import collections
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
import zmq

from pagedlab import parity
from pagedlab.attach import KVEventPublisher, KVEventReader, attach, wire
from pagedlab.engine.request import Request, SamplingParams
from pagedlab.errors import PagedlabError
from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.kv.observed import ObservedBlockPool, ObservedKVCacheManager
from pagedlab.parity.report import read_lines
from pagedlab.trace import Recorder, TraceDriver, load, replay, save
from pagedlab.trace import events as ev

GOLDEN = Path(__file__).parent.parent / "golden" / "vllm-0.32.0-events"
NAMES = ["kv-14", "kv-29", "kv-31"]


def batches(path):
    with Path(path).open("rb") as file:
        while frames := wire.read_frames(file, str(path)):
            yield wire.decode(frames, str(path))


class Ours:
    """An observed manager whose recorder is published, as an engine's is."""

    def __init__(self, num_blocks, block_size, publisher):
        self.recorder = Recorder(
            {"schema": ev.SCHEMA_VERSION, "config": {"num_blocks": num_blocks, "block_size": block_size}}
        )
        self.recorder.subscribe(publisher)
        self.block_size = block_size
        self.pool = ObservedBlockPool(BlockPool(num_blocks), block_size, self.recorder)
        manager = KVCacheManager(self.pool, block_size, 1 << 20)
        self.manager = ObservedKVCacheManager(manager, self.pool, self.recorder)
        self.requests = {}

    def arrive(self, name, tokens):
        request = self.requests[name] = Request(name, tokens, SamplingParams(), block_size=self.block_size)
        self.recorder.emit(
            ev.RequestArrived(request_id=name, token_ids=tuple(tokens), texts=("",) * len(tokens), max_tokens=1)
        )
        return request

    def admit(self, name):
        request = self.requests[name]
        hits, num_hit = self.manager.get_computed_blocks(request)
        if self.manager.allocate_slots(request, request.num_tokens - num_hit, new_computed_blocks=hits) is not None:
            request.num_computed_tokens = request.num_tokens

    def do(self, line):
        """One operation of a recording, which is one step."""
        op, name = line["op"], line.get("req")
        if op == "add":
            self.arrive(name, line["tokens"])
        if op in ("add", "resume"):
            self.admit(name)
        elif op == "decode":
            request = self.requests[name]
            request.append_output_token(line["token"])
            if self.manager.allocate_slots(request, 1) is None:
                self.manager.free(request)
                request.num_computed_tokens = 0
            else:
                request.num_computed_tokens += 1
        elif op == "reset_prefix_cache":
            self.manager.reset_prefix_cache()
        else:
            self.manager.free(self.requests[name])
            self.requests[name].num_computed_tokens = 0
        self.end_step()

    def end_step(self):
        self.recorder.emit(ev.StepEnded(step=1, num_tokens=0, seconds=0.0, device="CPU"))

    def tree(self):
        """By the last 64 bits of the hash, as on the wire: parent, tokens, copies."""
        return {
            h[-16:]: (p.parent and p.parent[-16:], p.token_ids, p.copies)
            for h, p in replay(self.recorder.trace).prefixes.items()
        }


def tree(trace):
    return {h: (p.parent, p.token_ids, p.copies) for h, p in replay(trace).prefixes.items()}


# ------------------------------------------------------------------------------------------ against vLLM's bytes


@pytest.mark.parametrize("name", NAMES)
def test_the_recordings_beside_the_events_are_identical_with_ours(name, capsys):
    assert parity.run([GOLDEN / f"{name}.jsonl.gz"]) == 0


@pytest.mark.parametrize("name", NAMES)
def test_ours_publishes_what_vllm_published_event_by_event(name, tmp_path):
    header, *lines = read_lines(GOLDEN / f"{name}.jsonl.gz")
    publisher = KVEventPublisher(str(tmp_path / "ours.events"))
    ours = Ours(header["num_blocks"], header["block_size"], publisher)
    for line in lines:
        ours.do(line)
    publisher.close()

    renamed = {None: None}  # their hash of a block -> ours: not the same bytes go into it

    def same(theirs, mine):
        return renamed.setdefault(theirs, mine) == mine

    recorded, published = list(batches(GOLDEN / f"{name}.events")), list(batches(tmp_path / "ours.events"))
    assert len(published) == len(recorded) > 50
    for (n, theirs), (m, mine) in zip(recorded, published, strict=True):
        assert n == m and theirs.data_parallel_rank == mine.data_parallel_rank == 0
        assert len(theirs.events) == len(mine.events)
        for a, b in zip(theirs.events, mine.events, strict=True):
            a, b = msgspec.to_builtins(a), msgspec.to_builtins(b)
            for field in ("block_hashes", "parent_block_hash"):
                x, y = a.pop(field, None), b.pop(field, None)
                assert all(map(same, x, y)) and len(x) == len(y) if isinstance(x, list) else same(x, y)
            assert a == b
    assert len(set(renamed.values())) == len(renamed)


@pytest.mark.parametrize("name", NAMES)
def test_after_every_batch_the_tree_holds_as_many_blocks_as_vllm_had_cached(name):
    lines = read_lines(GOLDEN / f"{name}.jsonl.gz")[1:]
    driver = TraceDriver(attach(str(GOLDEN / f"{name}.events")))
    stamps = [event.timestamp for event in driver.trace.events if isinstance(event, ev.BatchReceived)]
    assert driver.num_steps == len(stamps)
    most = 0
    for stamp in stamps:
        driver.step()
        state = driver.state()
        copies = [prefix.copies for prefix in state.prefixes.values()]
        assert sum(copies) == len(lines[int(stamp)]["cached"])
        most = max([most, *copies])
        assert not state.tables and not state.free and state.num_missed_batches == 0
    assert most > 1 or name != "kv-14", "this one has two blocks with one hash"


def test_the_tree_leads_from_the_start_of_a_prompt_to_its_blocks(tmp_path):
    publisher = KVEventPublisher(str(tmp_path / "ours.events"))
    ours = Ours(32, 2, publisher)
    for name, tokens in (("A", [1, 2, 3, 4, 5, 6]), ("B", [1, 2, 3, 4, 7, 8]), ("C", [9, 9])):
        ours.arrive(name, tokens)
        ours.admit(name)
        ours.end_step()
    publisher.close()
    state = replay(attach(str(tmp_path / "ours.events")))
    children = state.prefix_children()

    def paths(parent=None):
        return {state.prefixes[h].token_ids: paths(h) for h in children.get(parent, [])}

    assert paths() == {(1, 2): {(3, 4): {(5, 6): {}, (7, 8): {}}}, (9, 9): {}}
    assert tree(attach(str(tmp_path / "ours.events"))) == ours.tree()


# ---------------------------------------------------------------------------------------------- over a real socket


def listen(endpoint, reader, **kwargs):
    """Attach in a thread; returns it and what it will leave behind."""
    result = {}
    thread = threading.Thread(target=lambda: result.update(trace=attach(endpoint, reader=reader, **kwargs)))
    thread.start()
    return thread, result


def until_heard(publisher, reader):
    """Publish empty batches until the first arrives: a subscription takes a moment."""
    for _ in range(200):
        publisher._socket.send_multipart(wire.encode(publisher.sequence, wire.EventBatch(1.0, []), publisher.topic))
        publisher.sequence += 1
        if reader.expected is not None:
            return
        threading.Event().wait(0.02)
    raise AssertionError("nothing arrived")


def test_a_stream_over_a_loopback_socket_rebuilds_the_tree(tmp_path):
    publisher = KVEventPublisher("tcp://127.0.0.1:*")
    reader = KVEventReader(publisher.bound_endpoint)
    thread, result = listen(publisher.bound_endpoint, reader, seconds=4)
    until_heard(publisher, reader)
    lines = read_lines(GOLDEN / "kv-14.jsonl.gz")
    ours = Ours(lines[0]["num_blocks"], lines[0]["block_size"], publisher)
    for line in lines[1:]:
        ours.do(line)
    last = publisher.sequence
    for _ in range(1000):
        if reader.expected == last:
            break
        threading.Event().wait(0.01)
    assert tree(reader.trace) == ours.tree() != {}
    again = load(save(reader.trace, tmp_path / "attached.jsonl.gz"))
    assert tree(again) == ours.tree() and again.header["attached"] == reader.source
    publisher.close()
    thread.join(25)
    assert not thread.is_alive() and result["trace"] is reader.trace


def test_only_the_asked_topic_is_heard_and_reading_stops_after_the_asked_batches():
    publisher = KVEventPublisher("tcp://127.0.0.1:*", topic="kv@one")
    reader = KVEventReader(publisher.bound_endpoint)
    other = KVEventReader(publisher.bound_endpoint)
    threads = [
        listen(publisher.bound_endpoint, reader, topic="kv@one", max_batches=1, seconds=20)[0],
        listen(publisher.bound_endpoint, other, topic="kv@two", seconds=1)[0],
    ]
    until_heard(publisher, reader)
    for thread in threads:
        thread.join(25)
        assert not thread.is_alive()
    publisher.close()
    assert len(reader.trace.step_ends()) == 1 and other.trace.events == []


def test_a_silent_server_is_left_after_the_asked_seconds():
    socket = zmq.Context.instance().socket(zmq.PUB)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    assert attach(f"tcp://127.0.0.1:{port}", seconds=0.3).events == []
    socket.close(linger=0)


# ------------------------------------------------------------------------------- what goes wrong on a live stream


def stored(name, parent=None, tokens=(1, 2), **changes):
    event = wire.BlockStored([name], parent, list(tokens), len(tokens), None, "GPU", None, [None], 0, "full_attention")
    for field, value in changes.items():
        setattr(event, field, value)
    return event


def read(*messages):
    reader = KVEventReader("here")
    for sequence, events in messages:
        reader.take(wire.encode(sequence, wire.EventBatch(1.0, events)))
    return reader, replay(reader.trace)


def test_missed_batches_are_counted_and_who_came_late_has_missed_the_first():
    _, state = read((3, [stored(1)]), (4, [stored(2)]), (7, [stored(3)]))
    assert state.num_missed_batches == 3 + 2 and len(state.prefixes) == 3 and state.step == 3


def test_a_removal_of_what_was_stored_before_we_listened_is_no_error():
    _, state = read((9, [wire.BlockRemoved([77], "GPU", 0), stored(1, parent=77)]))
    assert list(state.prefixes) == ["0000000000000001"]
    assert state.prefix_children() == {f"{77:016x}": ["0000000000000001"]}


def test_a_server_that_counts_from_the_start_again_has_an_empty_cache():
    _, state = read((0, [stored(1)]), (1, [stored(2)]), (0, [stored(3)]))
    assert list(state.prefixes) == ["0000000000000003"]


def test_a_hash_stored_twice_is_there_until_it_was_removed_twice():
    messages = [(0, [stored(1)]), (1, [stored(1)]), (2, [wire.BlockRemoved([1], "GPU", 0)])]
    assert read(*messages)[1].prefixes["0000000000000001"].copies == 1
    assert read(*messages, (3, [wire.BlockRemoved([1], "GPU", 0)]))[1].prefixes == {}


def test_clearing_all_clears_all():
    assert read((0, [stored(1), stored(2, parent=1), wire.AllBlocksCleared()]))[1].prefixes == {}


def test_other_media_and_other_groups_of_layers_are_skipped_and_counted():
    reader, state = read(
        (
            0,
            [
                stored(1, medium="CPU"),
                stored(2, group_idx=1),
                stored(3, group_idx=None, medium=None),
                wire.BlockRemoved([3], "STORAGE"),
            ],
        )
    )
    assert list(state.prefixes) == ["0000000000000003"] and reader.num_skipped == 3


def test_hashes_of_32_bytes_are_read_as_well_as_64_bit_numbers():
    _, state = read((0, [stored(b"\x01" * 32), stored(b"\x02" * 32, parent=b"\x01" * 32)]))
    assert state.prefix_children() == {None: ["01" * 32], "01" * 32: ["02" * 32]}


def test_fields_that_a_newer_vllm_adds_are_skipped():
    payload = msgspec.msgpack.encode(
        [
            1.0,
            [
                {
                    "type": "BlockStored",
                    "block_hashes": [5],
                    "parent_block_hash": None,
                    "token_ids": [1, 2],
                    "block_size": 2,
                    "lora_id": None,
                    "medium": "GPU",
                    "lora_name": None,
                    "colour": "blue",
                }
            ],
            0,
            "more",
        ]
    )
    reader = KVEventReader("here")
    reader.take((b"", bytes(8), payload))
    assert list(replay(reader.trace).prefixes) == ["0000000000000005"]


@pytest.mark.parametrize(
    "frames",
    [
        (b"", bytes(8)),
        (b"", bytes(4), b"\x90"),
        (b"", bytes(8), b"hello"),
        (b"", bytes(8), b""),
        (b"", bytes(8), msgspec.msgpack.encode([1.0, [{"type": "BlockMelted"}]])),
        (
            b"",
            bytes(8),
            msgspec.msgpack.encode([1.0, [["BlockStored", [1], None, [1, 2], 2]]]),
        ),  # an older vLLM's arrays
        (b"", bytes(8), msgspec.msgpack.encode({"ts": 1.0})),
        (b"", bytes(8), msgspec.msgpack.encode(wire.EventBatch(1.0, [stored(1, token_ids=[1, 2, 3])]))),
        (b"", bytes(8), msgspec.msgpack.encode(wire.EventBatch(1.0, [stored(1, block_size=0)]))),
    ],
    ids=[
        "two frames",
        "a short sequence number",
        "no MessagePack",
        "nothing",
        "an unknown event",
        "events as arrays",
        "a map",
        "too many tokens",
        "blocks of 0 tokens",
    ],
)
def test_a_message_that_is_none_is_refused_in_one_sentence_and_changes_nothing(frames):
    reader = KVEventReader("here")
    with pytest.raises(PagedlabError) as caught:
        reader.take(frames)
    assert "here" in str(caught.value) and "\n" not in str(caught.value)
    assert reader.trace.events == [] and reader.expected is None


def test_files_and_addresses_that_cannot_be_read_are_refused(tmp_path):
    cut = tmp_path / "cut.events"
    cut.write_bytes((GOLDEN / "kv-14.events").read_bytes()[:-7])
    text = tmp_path / "text.events"
    text.write_text("no events in here\n")
    for source in (cut, text, tmp_path / "missing", tmp_path, "tcp://nowhere", "http://localhost:5557"):
        with pytest.raises(PagedlabError) as caught:
            attach(str(source), seconds=0.1)
        assert "\n" not in str(caught.value)


def test_what_cannot_be_opened_for_publishing_is_refused(tmp_path):
    with KVEventPublisherAt("tcp://127.0.0.1:*") as taken:
        for endpoint in (
            taken.bound_endpoint.replace("127.0.0.1", "*"),
            str(tmp_path / "no folder" / "x.events"),
            "tcp://*:http",
        ):
            with pytest.raises(PagedlabError, match="cannot be published"):
                KVEventPublisher(endpoint)


class KVEventPublisherAt:
    def __init__(self, endpoint):
        self.publisher = KVEventPublisher(endpoint)

    def __enter__(self):
        return self.publisher

    def __exit__(self, *_):
        self.publisher.close()


def test_nothing_is_sent_for_a_step_that_changed_nothing(tmp_path):
    publisher = KVEventPublisher(str(tmp_path / "ours.events"))
    ours = Ours(8, 4, publisher)
    ours.arrive("A", [1, 2])  # fills no block
    ours.admit("A")
    ours.end_step()
    publisher.close()
    assert list(batches(tmp_path / "ours.events")) == []


@pytest.mark.parametrize("library", ["msgspec", "zmq"])
def test_without_the_libraries_the_message_says_what_to_install(library):
    program = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "import pagedlab.attach\n"
        "try: pagedlab.attach.attach\n"
        "except pagedlab.attach.PagedlabError as error: print(error)"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert 'pip install "pagedlab[attach]"' in output and library in output


def test_the_recorded_events_are_of_every_kind():
    kinds = collections.Counter(
        type(event).__name__
        for name in NAMES
        for _, batch in batches(GOLDEN / f"{name}.events")
        for event in batch.events
    )
    assert set(kinds) == {"BlockStored", "BlockRemoved", "AllBlocksCleared"}


def test_the_command_shows_each_batch_and_the_tree_and_saves_the_trace(tmp_path, capsys):
    from pagedlab.attach import run

    publisher = KVEventPublisher(str(tmp_path / "ours.events"))
    ours = Ours(32, 2, publisher)
    for name, tokens in (("A", [1, 2, 3, 4]), ("B", [1, 2, 5, 6]), ("C", [1, 2, 5, 6])):
        ours.arrive(name, tokens)
        ours.admit(name)
        ours.end_step()
    publisher.close()
    assert run(str(tmp_path / "ours.events"), out=tmp_path / "trace.jsonl.gz", max_batches=10) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == [
        "batch 0: 2 blocks stored, 0 removed; 2 prefixes cached",
        "batch 1: 1 blocks stored, 0 removed; 3 prefixes cached",
        "batch 2: 1 blocks stored, 0 removed; 3 prefixes cached",
        "1 2",
        "  3 4",
        "  5 6  ×2",
    ]
    assert tree(load(tmp_path / "trace.jsonl.gz")) == ours.tree()
    run(str(tmp_path / "ours.events"), max_lines=1)
    assert "and 2 blocks more" in capsys.readouterr().out


def test_a_block_whose_parent_is_not_known_is_shown_behind_an_ellipsis():
    from pagedlab.attach.show import tree_text

    assert tree_text(read((5, [stored(2, parent=1, tokens=(7, 8)), stored(3, parent=2)]))[1], 9) == "… 7 8\n  1 2"
    assert tree_text(read((5, []))[1], 9) == "No prefix is cached."
