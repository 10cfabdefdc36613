"""The prefix lab: what a prompt finds in the picture is what the engine's own manager finds."""

import json
import xml.etree.ElementTree as ET
from random import Random

import pytest

from pagedlab.engine import LLM, SamplingParams
from pagedlab.engine.request import Request
from pagedlab.errors import PagedlabError
from pagedlab.trace import Recorder, replay, save
from pagedlab.trace import events as ev
from pagedlab.viz.kit.marks import picture
from pagedlab.viz.prefix.lab import PrefixLab, prefix_hits
from pagedlab.viz.prefix.tree import difference, place_tree
from pagedlab.viz.prefix.words import headline
from pagedlab.viz.walk import num_hit, walk

SYSTEM = "You help. "


def params(max_tokens=4):
    return SamplingParams(max_tokens=max_tokens, ignore_eos=True)


@pytest.fixture(scope="module")
def model():
    return LLM("tiny-random", record=False, block_size=4, num_gpu_blocks_override=8)


def engine(model, **knobs):
    return LLM(model, record=True, **{"block_size": 4, "num_gpu_blocks_override": 16} | knobs)


def shared_prompt(model):
    """Two requests with one system prompt, done; a third that has just revived their blocks."""
    llm = engine(model)
    for question in ("Why is it?", "Who are you"):
        llm.add_request(SYSTEM + question, params())
    while llm.has_unfinished_requests():
        llm.step()
    llm.add_request(SYSTEM + "Why not", params(6))
    llm.step()
    return llm


@pytest.mark.parametrize("seed", range(4))
def test_a_walk_finds_what_the_manager_finds_whatever_was_evicted(model, seed):
    rng = Random(seed)
    llm = engine(model, num_gpu_blocks_override=rng.choice([8, 12, 24]))
    prompts = [[rng.randint(1, 2) for _ in range(rng.randint(1, 16))] for _ in range(12)]
    checked = hits = 0
    for prompt in prompts:
        llm.add_request(prompt, params(rng.randint(1, 3)), salt=rng.choice(["", "", "x"]))
        llm.step()
        state = replay(llm.trace)
        for other in prompts:
            request = Request("probe", other, params(), block_size=4)
            blocks, num_tokens = llm.kv_cache_manager._manager.get_computed_blocks(request)
            lookups = walk(state, other)
            assert num_hit(lookups) == num_tokens
            assert [x.block_id for x in lookups if x.outcome == "hit"] == [b.block_id for b in blocks]
            assert [x.revives for x in lookups if x.outcome == "hit"] == [b.ref_cnt == 0 for b in blocks]
            checked, hits = checked + 1, hits + bool(num_tokens)
    assert checked == 144 and hits > 4


def test_the_picture_shows_the_walk_the_tree_the_queue_and_the_cost(model):
    lab = prefix_hits(shared_prompt(model), SYSTEM + "Why is").lab
    assert lab.title() == (
        "Prefix hits, step 5. C arrives: 12 of its 17 tokens found, 5 to compute. "
        "Your prompt, if you sent it now: 12 of 16 tokens found, 4 to compute."
    )
    marks = picture(lab.marks())
    assert [marks[f"prompt.{i}.v"].text for i in range(4)] == ["hit", "hit", "hit", "computed again"]
    state = lab.state
    nodes = {m.id: m for m in marks.values() if m.id.startswith("node.") and m.id.count(".") == 1}
    assert len(nodes) == len(state.prefixes)
    revived = [e.block_id for e in lab._scene().events if isinstance(e, ev.BlockTouched) and e.revived]
    assert sum(m.text == "revived" for m in marks.values()) == len(revived) == 3
    queue = [marks[f"queue.{b}.n"].text for b in state.free]
    assert queue == [f"#{b}" + ("◆" if b in state.cached else "") for b in state.free]
    assert [marks[f"cost.{i}.found"].text for i in range(3)] == ["0", "12", "12"]
    assert [marks[f"cost.{i}.computed"].text for i in range(3)] == ["20", "9", "5"]
    assert all(marks[f"cost.{i}.first token"].text.endswith(" ms") for i in range(3))


def test_a_typed_prompt_is_walked_block_by_block(model):
    hits = prefix_hits(shared_prompt(model))
    assert "Your prompt" not in hits.title() and "type one" in picture(hits.lab.marks())["prompt.result"].text
    hits.box.value = SYSTEM + "Who is it"
    lab = hits.lab
    assert lab.selected == "1" and lab.title().endswith("if you sent it now: 4 tokens found so far.")
    assert picture(lab.marks())["prompt.why"].text == "Block 0: found in #1, shared with C."
    assert lab.words()["question"].startswith("Is block 1 in memory?")
    hits.select("4")
    assert lab.title().endswith("12 of 19 tokens found, 7 to compute.") and lab.words()["question"] == ""
    assert picture(lab.marks())["prompt.3.v"].text == "miss: stop"
    with pytest.raises(PagedlabError, match="5 blocks"):
        hits.select("6")
    hits.box.value = ""
    assert lab.lookups == [] and lab.selected is None


def headlines(lab):
    lines = []
    for position in range(lab.num_steps + 1):
        lab.seek(position)
        lines.append(picture(lab.marks())["head.line"].text)
    return lines


def test_the_headline_tells_the_step_and_never_the_typed_prompt(model):
    llm = engine(model)
    for question in ("Why is it?", "Who are you"):
        llm.add_request(SYSTEM + question, params())
    lab = prefix_hits(llm, "something else").lab
    while llm.has_unfinished_requests():
        llm.step()
    llm.add_request(SYSTEM + "Why not", params(2))
    llm.step(), llm.step()
    assert headlines(lab) == [
        "Nothing has run yet",
        "A and B arrive: 12 of their 41 tokens found, 29 to compute",
        "No block was found, filled or lost in this step",
        "No block was found, filled or lost in this step",
        "A and B are finished: 8 of their 9 blocks can be found again",
        "C arrives: 12 of its 17 tokens found, 5 to compute",
        "C is finished: 4 of its 5 blocks can be found again",
    ]


def test_the_headline_tells_waiting_filling_losing_and_preemption(model):
    llm = engine(model, num_gpu_blocks_override=8)
    for text in ("abcdefgh", "ijklmnop"):
        llm.add_request(text, params(12))
    lab = prefix_hits(llm).lab
    while llm.has_unfinished_requests():
        llm.step()
    for text in ("wxyzwxyz", "cdefcdefcdefcdefcde"):  # the second finds no room beside the first
        llm.add_request(text, params(8))
    while llm.has_unfinished_requests():
        llm.step()
    sentences = " | ".join(headlines(lab))
    for words in (
        "A and B arrive: none of their 16 tokens found",
        " are full and can be found from now on",
        "B is preempted: ",
        "B comes back: ",
        "handed out again, and can be found no more",
    ):
        assert words in sentences, (words, sentences)


def test_a_headline_has_shorter_words_where_there_is_less_room(model):
    lab = prefix_hits(shared_prompt(model)).lab
    ways = [headline(lab._scene(), room) for room in (900, 500, 330)]
    assert ways == [
        "C arrives: 12 of its 17 tokens found, 5 to compute",
        "C arrives: 12 of its 17 tokens found",
        "12 of its 17 tokens found",
    ]


@pytest.mark.parametrize("index", [0, 3, 5])
def test_a_miss_names_the_first_token_that_differs(model, index):
    llm = shared_prompt(model)
    prompt = next([*e.token_ids] for e in llm.trace.events if isinstance(e, ev.RequestArrived))
    theirs, prompt[index] = prompt[index], 7
    lab = prefix_hits(llm, prompt).lab
    other = difference(lab.state, lab.lookups)
    assert (other.index, other.token_id, other.other_token_id) == (index % 4, 7, theirs)
    block_id = {h: b for b, h in reversed(lab.state.cached.items())}[other.block_hash]
    text = picture(lab.marks())["prompt.why"].text
    assert text.startswith(f"Block {index // 4}: not in memory, so the walk ends. Its {index % 4 + 1}")
    assert f"in #{block_id} it is “{lab._scene().words([theirs])}”." in text


def test_where_nothing_stands_in_its_place_a_miss_says_so(model):
    llm = engine(model)
    lab = prefix_hits(llm, "abcdefgh").lab
    assert picture(lab.marks())["prompt.why"].text.endswith("no hashed block begins a prompt.")
    llm.add_request("abcdefgh", params(2), salt="x")
    llm.step()
    lab.seek(1)
    assert picture(lab.marks())["prompt.why"].text.endswith("#1 has the same tokens, but under a salt.")
    lab = prefix_hits(llm.trace, lab.token_ids).lab
    assert [x.outcome for x in lab.lookups] == ["miss", "after"]


def test_the_block_that_is_being_filled_is_pale_and_has_no_hash(model):
    llm = shared_prompt(model)
    lab = prefix_hits(llm).lab
    seen = 0
    for position in range(lab.num_steps + 1):
        lab.seek(position)
        marks, state = picture(lab.marks()), lab.state
        pale = {id.removeprefix("partial.").removesuffix(".n"): m.text for id, m in marks.items()
                if id.startswith("partial.") and id.endswith(".n")}  # fmt: skip
        filling = {r: next((b for b in table if b not in state.cached), None) for r, table in state.tables.items()}
        assert pale == {r: f"#{b}" for r, b in filling.items() if b is not None and any(state.slots[b])}
        for request_id in pale:
            logical = state.tables[request_id].index(filling[request_id])
            place = marks[f"partial.{request_id}"].place
            assert marks[f"partial.{request_id}.t"].text == f"{state.filled(request_id, logical)} of 4: no hash"
            assert place[0] == 24 + logical * 116
            assert sum(m.place == place for m in marks.values()) == 1, "on top of another block"
            seen += 1
    assert seen > 3


def test_a_step_back_shows_what_the_prompt_would_have_found_then(model):
    lab = prefix_hits(shared_prompt(model), SYSTEM + "Who are").lab
    found = {}
    for position in range(lab.num_steps, -1, -1):
        lab.seek(position)
        found[position] = num_hit(lab.lookups)
        ET.fromstring(lab.svg())
    assert found[0] == 0 and found[lab.num_steps] == 16


def test_a_live_lab_steps_the_engine_and_a_saved_run_shows_the_same(model, tmp_path):
    llm = shared_prompt(model)
    lab = prefix_hits(llm, SYSTEM).lab
    sizes = []
    lab.send = lambda message, buffers=None: sizes.append(len(json.dumps(message)))
    assert lab.live and [lab.forward() for _ in range(3)] == [1, 1, 1]
    path = save(llm.trace, tmp_path / "run.jsonl.gz")
    again = prefix_hits(path, llm.tokenizer.encode(SYSTEM)).lab
    badge_ids = {"badge", "badge.text", "badge.light"}
    assert [m for m in again.marks() if m.id not in badge_ids] == [m for m in lab.marks() if m.id not in badge_ids]
    assert picture(again.marks())["badge.text"].text.startswith("recorded · CPU")
    assert max(sizes[1:]) < 20_000
    assert lab.strip().marks[1:-1][-1].tip == "" and len(lab.strip().marks) == lab.num_steps + 2


def test_without_a_tokenizer_the_box_takes_token_ids_and_says_so(model):
    hits = prefix_hits(shared_prompt(model).trace)
    hits.box.value = "89 111 117 32"
    assert [x.outcome for x in hits.lab.lookups] == ["last"]
    hits.box.value = "You "
    assert "no tokenizer" in hits._notice.value and len(hits.lab.lookups) == 1


def attached():
    recorder = Recorder(
        {"device": "unknown", "live": True, "dtype": None, "date": "2026-07-01", "attached": "tcp://server:5557",
         "config": {"num_blocks": 1, "block_size": 2}}
    )  # fmt: skip
    for batch, (parent, tokens) in enumerate([(None, (1, 2)), ("h12", (3, 4)), ("gone", (5, 6))]):
        name = "h" + "".join(map(str, tokens))
        recorder.emit(ev.PrefixStored(block_hash=name, parent_hash=parent, token_ids=tokens))
        recorder.emit(ev.BatchReceived(sequence=batch, timestamp=0.0, num_missed=batch // 2))
    return recorder.trace


def test_of_a_server_it_shows_nothing_that_the_server_does_not_tell():
    lab = prefix_hits(attached(), "1 2 3 4 5").lab
    marks = picture(lab.marks())
    assert marks["badge.text"].text == "vLLM's events · tcp://server:5557"
    assert [x.outcome for x in lab.lookups] == ["hit", "hit", "partial"]
    assert not any("#" in m.text for m in marks.values()), "a block number"
    assert not any(m.id.startswith(("queue.0", "queue.1", "cost.")) for m in marks.values())
    assert "which block they are in" in marks["queue.what"].text
    assert marks["orphan.h56"].text == "…"
    assert "1 batch never came" in marks["story"].text


def test_a_tree_too_large_keeps_the_path_and_says_how_much_is_left_out(model):
    llm = engine(model, num_gpu_blocks_override=64)
    for i in range(9):
        llm.add_request([i + 1] * 12, params(1))
    while llm.has_unfinished_requests():
        llm.step()
    lab = prefix_hits(llm, [9] * 12).lab
    nodes, left = place_tree(lab.state, 4, 8, [x.block_hash for x in lab.lookups])
    assert len(nodes) + left == len(lab.state.prefixes) == 27 and left == 15
    assert {x.block_hash for x in lab.lookups} <= {node.block_hash for node in nodes}
    assert picture(lab.marks())["tree.more"].text == "+ 15 blocks more"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_static_picture_is_valid_and_inside_its_frame(model, theme):
    hits = prefix_hits(shared_prompt(model), SYSTEM + "Why is it so? " * 6)
    root = ET.fromstring(hits.svg(theme))
    assert root.get("aria-label") == hits.title()
    for mark in hits.lab.static_marks():
        if len(mark.place) == 4:
            assert 0 <= mark.place[0] <= mark.place[0] + mark.place[2] <= 960, mark
            assert 0 <= mark.place[1] <= mark.place[1] + mark.place[3] <= hits.lab.SIZE[1], mark
    data = hits._repr_mimebundle_()
    bundle = data[0] if isinstance(data, tuple) else data
    assert bundle["image/svg+xml"].startswith("<svg") and "found" in bundle["text/plain"]


def test_an_empty_run_has_a_picture():
    recorder = Recorder({"device": "CPU", "live": False, "dtype": None, "date": "2026-07-01",
                         "config": {"num_blocks": 4, "block_size": 4}})  # fmt: skip
    lab = PrefixLab(prefix_hits(recorder.trace).driver, None, None)
    assert lab.title() == "Prefix hits, step 0. Nothing has run yet."
    ET.fromstring(lab.svg())
