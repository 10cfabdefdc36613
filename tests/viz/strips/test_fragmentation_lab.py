"""The fragmentation lab: every slot as the run itself accounts for it, and the words for who fits nowhere."""

import json
import xml.etree.ElementTree as ET
from random import Random

import pytest

from pagedlab.errors import PagedlabError
from pagedlab.kv.contiguous import ContiguousMemory
from pagedlab.kv.serving import PagedMemory, ServedRequest, Serving
from pagedlab.trace import load, save
from pagedlab.viz.kit.marks import picture
from pagedlab.viz.strips.lab import LOAD, fragmentation
from pagedlab.viz.strips.run import KINDS

WHAT = ("token", "reserved", "internal", "external", "free")


def serving(kind, load, num_slots, max_model_len, block_size):
    memory = (
        PagedMemory(1 + num_slots // block_size, block_size, max_model_len)
        if kind == "paged"
        else ContiguousMemory(num_slots, max_model_len, kind)
    )
    return Serving(memory, [ServedRequest(chr(65 + i), *lengths) for i, lengths in enumerate(load)])


@pytest.mark.parametrize("seed", range(6))
def test_every_slot_is_what_the_run_itself_accounts_for(seed):
    rng = Random(seed)
    lengths = LOAD if seed == 0 else [(rng.randint(1, 12), rng.randint(1, 12)) for _ in range(rng.randint(1, 12))]
    lab = fragmentation(lengths, moment=0)
    runs = {kind: serving(kind, lengths, 64, 24, 4) for kind in KINDS}
    for run in runs.values():
        run.run()
    checked = 0
    while lab.forward():
        moment = lab.moments[lab.position]
        for kind, strip in lab.strips.items():
            assert sum(span.length for span in strip.spans) == 64
            if moment.phase != "tokens" or moment.step > len(runs[kind].steps):
                continue
            step = runs[kind].steps[moment.step - 1]
            for what in ("token", "reserved", "internal"):
                assert strip.num(what) == getattr(step.account, what), (kind, moment, what)
            if not runs[kind].num_preemptions:  # after one, a run asks nobody in, and so counts nothing as lost
                assert strip.num("external") == step.account.external, (kind, moment)
            assert len(strip.state.running) == step.num_running
            checked += 1
    assert checked >= 4


def test_it_opens_where_a_request_fits_nowhere_though_the_sum_would_do():
    lab = fragmentation()
    assert "G needs 16 slots in a row. 25 are free. It fits nowhere." in lab.title()
    strip = lab.strips["oracle"]
    assert strip.wait.scattered and strip.wait.longest < 16 <= strip.wait.free == strip.num("external") == 25
    marks = picture(lab.marks())
    assert [marks[f"oracle.length.{start}"].text for start in (0, 13, 53)] == ["7 free", "7 free", "11 free"]
    assert marks["oracle.n4"].text == "25" and "alarm" in marks["oracle.n4"].cls
    assert "lost" in marks["slot.0.oracle"].cls and "lost" not in marks["slot.0.paged"].cls


def test_paging_loses_nothing_between_blocks_and_less_than_one_block_a_request():
    lab = fragmentation(moment=0)
    while lab.forward():
        strip = lab.strips["paged"]
        assert strip.num("external") == 0
        if lab.moments[lab.position].phase == "tokens":
            assert strip.num("internal") + strip.num("reserved") <= 3 * len(strip.state.running)


def test_forward_and_back_show_the_same_pictures_and_each_is_a_small_message():
    lab = fragmentation(moment=0)
    assert lab.num_steps == 50
    forward = [lab.marks()]
    sizes = []
    lab.send = lambda message, buffers=None: sizes.append(len(json.dumps(message)))
    while lab.forward():
        forward.append(lab.marks())
    for marks in reversed(forward):
        assert lab.marks() == marks
        lab.back()
    assert len(picture(forward[7])) > 300 and max(sizes[1:]) < 20_000


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_static_picture_is_valid_and_in_its_frame(theme, kind):
    lab = fragmentation(select=kind, moment=0)
    for position in (0, 1, 5, 17, lab.num_steps):
        lab.seek(position)
        root = ET.fromstring(lab.svg(theme))
        assert root.get("aria-label") == lab.title()
        for mark in lab.static_marks():
            if not mark.cls.startswith("path") and len(mark.place) == 4:
                assert 0 <= mark.place[0] <= mark.place[0] + mark.place[2] <= 960
                assert 0 <= mark.place[1] <= mark.place[1] + mark.place[3] <= lab.SIZE[1]
    assert len(lab.svg(theme)) < 60_000


def test_a_prediction_is_answered_by_the_next_event():
    lab = fragmentation(moment=0, select="max")
    question = "Maximum: A comes in next and takes 24 slots in a row. Where will its tokens begin? Click a free slot."
    assert lab.words()["question"] == question
    lab.point("slot.3.max")
    assert lab.words()["question"] == "You say slot 3. Go on and see."
    assert "guess" in picture(lab.marks())
    lab.forward()
    assert lab.words()["verdict"] == "You said slot 3; A begins in slot 0. Score 0 of 1."
    lab.forward(2)  # B's turn to wait under "max": nobody comes in
    with pytest.raises(PagedlabError, match="nobody comes in"):
        lab.predict(60)
    other = fragmentation(moment=0, select="paged")
    with pytest.raises(PagedlabError, match="not free"):
        other.predict(64)
    other.predict(2)
    other.forward()
    assert other.words()["verdict"] == "✓ A begins in block #1. Score 1 of 1."
    other.back()
    with pytest.raises(PagedlabError, match="seen already"):
        other.predict(2)


def test_saved_traces_show_the_same_pictures_and_say_that_they_are_recorded(tmp_path):
    lab = fragmentation()
    for kind, trace in lab.traces.items():
        save(trace, tmp_path / f"{kind}.jsonl.gz")
    again = fragmentation({kind: load(tmp_path / f"{kind}.jsonl.gz") for kind in KINDS})
    badge_ids = {"badge", "badge.text", "badge.light"}
    assert [m for m in again.marks() if m.id not in badge_ids] == [m for m in lab.marks() if m.id not in badge_ids]
    badge = picture(again.marks())["badge.text"].text
    assert badge.startswith("recorded · no model · 20") and not again.live


def test_a_strip_of_many_slots_is_drawn_run_by_run():
    rng = Random(1)
    lab = fragmentation(
        [(rng.randint(20, 200), rng.randint(20, 200)) for _ in range(12)],
        num_slots=2048, max_model_len=512, block_size=16, select="max",
    )  # fmt: skip
    lab.seek(min(40, lab.num_steps))
    assert len(lab.marks()) < 900
    ET.fromstring(lab.svg())


def test_what_cannot_be_shown_is_said_in_one_sentence():
    for wrong, words in (
        (dict(load=[(5, 3), (30, 30)]), "can never be served"),
        (dict(load=[(0, 3)]), "at least 1 each"),
        (dict(num_slots=63), "whole blocks of 4"),
        (dict(select="best"), "there are: max, power_of_two, oracle, paged"),
        (dict(moment=99), "There is no moment 99"),
        (dict(load={}), "a trace for each of"),
    ):
        with pytest.raises(PagedlabError, match=words):
            fragmentation(**wrong)
    empty = fragmentation([])
    assert empty.num_steps == 0 and "Nobody is in memory" in empty.title()
    ET.fromstring(empty.svg())


def test_c_arrives_later_and_takes_two_blocks_that_do_not_touch_where_no_hole_is_long_enough():
    lab = fragmentation([(4, 6), (4, 9), (8, 12, 6), (9, 5), (4, 9)])
    assert "C needs 19 slots in a row. 40 are free. It fits nowhere." in lab.title()
    assert lab.strips["oracle"].wait.longest == 18 and lab.strips["power_of_two"].wait.scattered
    assert list(lab.strips["paged"].state.tables["C"]) == [10, 7]
    lab.choose("paged")
    text = picture(lab.marks())["paged.story"].text
    assert text == "C arrives. C took blocks #10 and #7: they need not touch."
    lab.seek(lab.position - 1)
    assert "C" not in lab.strips["paged"].state.requests
    assert lab.words()["question"].startswith("Paged: C arrives next and takes 2 blocks.")
    assert picture(lab.marks())["paged.queue"].text == "nobody waits"  # no contradiction: it has not arrived


def test_a_moment_shows_who_arrives_though_nobody_comes_in():
    lab = fragmentation([(20, 4), (20, 4), (20, 3, 2)], select="max", moment=0)
    sentences = []
    while lab.forward():
        sentences.append(lab.words()["say"])
    assert any("C arrives." in words for words in sentences)
    assert not any("A arrives" in words for words in sentences)


@pytest.mark.parametrize("load", [5, None, "ab", [None], [(1,)], [(1, 2, 3, 4)], [("a", 2)], [(1.5, 2)], [(1, 2, "x")],
                                  [(1, 2, 10**9)], dict.fromkeys(KINDS, 5)], ids=repr)  # fmt: skip
def test_a_workload_that_is_none_is_refused_and_nothing_hangs(load):
    with pytest.raises(PagedlabError):
        fragmentation(load)


@pytest.mark.parametrize("name", ["num_slots", "max_model_len", "block_size", "moment", "allocator", "select"])
def test_an_argument_of_a_wrong_type_is_refused(name):
    for wrong in ("x", 1.5, float("nan"), [], -1):
        with pytest.raises(PagedlabError):
            fragmentation(**{name: wrong})
    with pytest.raises(PagedlabError, match="block_size is 0"):
        fragmentation(block_size=0)


def test_the_one_who_waits_says_what_it_asks_for_and_what_there_is():
    lab = fragmentation(moment=0, select="max")
    needs = {}
    for moment in (1, 5):
        lab.seek(moment)
        marks = picture(lab.marks())
        needs[moment] = [marks[f"{kind}.need"].text if f"{kind}.need" in marks else "" for kind in KINDS]
        for kind, strip in lab.strips.items():
            if f"{kind}.need" in marks:  # red where the sum would do, and only there are slots lost
                scattered = strip.wait is not None and strip.wait.scattered
                assert ("alarm" in marks[f"{kind}.need"].cls) == scattered == (strip.num("external") > 0)
    assert needs[1] == ["C asks for 24 in a row: 16 are free", "G asks for 16 in a row: none is free",
                        "G asks for 16 in a row: 11 are free", ""]  # fmt: skip
    assert needs[5] == ["C asks for 24 in a row: it fits", "G asks for 16 in a row: longest hole 8",
                        "G asks for 16 in a row: longest hole 11", ""]  # fmt: skip


def test_a_strip_is_called_by_one_name_and_the_headline_says_whose_it_is():
    from pagedlab.viz.strips import words

    lab = fragmentation()
    for kind, strip in lab.strips.items():
        marks = picture(fragmentation(select=kind, moment=lab.position).marks())
        assert marks[f"key.{kind}.name"].text in marks[f"chip-name.{kind}"].text.lower()
        assert marks["head.line"].text == f"{words.short_name(strip)}: {words.headline(strip)}"
    keys = [mark for id, mark in picture(lab.marks()).items() if id.startswith("key.") and id.endswith(".name")]
    assert [mark.text for mark in keys] == ["maximum", "power of two", "oracle", "paged"]  # as the strips, always


@pytest.mark.parametrize("badge", ["live", "recorded"])
def test_no_headline_and_no_need_of_the_chapters_labs_is_cut(badge):
    for load_ in (LOAD, [(4, 6), (4, 9), (8, 12, 6), (9, 5), (4, 9)]):
        lab = fragmentation(load_, moment=0)
        lab.live = badge == "live"
        while lab.forward():
            for kind in KINDS:
                lab.choose(kind)
                cut = [m.text for m in lab.marks() if m.text.endswith("…")]
                assert not cut, (lab.position, cut)


def test_who_comes_in_has_a_letter_before_it_has_written():
    lab = fragmentation(moment=1)
    marks = picture(lab.marks())
    for kind, strip in lab.strips.items():
        assert strip.num("token") == 0
        letters = [mark.text for id, mark in marks.items() if id.startswith(f"{kind}.who.")]
        assert letters == list(strip.state.running)


def test_blocks_that_are_apart_say_whose_logical_block_they_are():
    lab = fragmentation([(4, 6), (4, 9), (8, 12, 6), (9, 5), (4, 9)])
    seen = 0
    while lab.forward():
        marks = picture(lab.marks())
        named = {int(id.split(".")[2]): mark.text for id, mark in marks.items() if id.startswith("paged.own.")}
        tables = lab.strips["paged"].state.tables
        apart = {r: table for r, table in tables.items() if list(table) != [*range(table[0], table[0] + len(table))]}
        assert named == {b: f"{r}{i}" for r, table in apart.items() for i, b in enumerate(table)}
        assert ("paged.named" in marks) == bool(named)
        seen += bool(named)
    assert seen


def test_lines_that_coincide_lie_side_by_side_and_steps_are_numbered_where_they_begin():
    lab = fragmentation([(4, 6), (4, 9), (8, 12, 6), (9, 5), (4, 9)])
    marks = picture(lab.marks())
    first = {kind: float(marks[f"count.line.{kind}"].text.split()[1].split("H")[0]) for kind in KINDS}
    assert len({first[kind] for kind in ("power_of_two", "oracle", "paged")}) == 3  # four requests each
    steps = [mark for id, mark in marks.items() if id.startswith("axis.") and id.count(".") == 1]
    assert [mark.text for mark in steps] == ["step 1", "5", "10", "15", "20"]
    pitch = (684 - 62) / lab.num_steps
    for mark in steps:
        moment = lab.moments[1 + round((mark.place[0] - 62) / pitch)]
        before = lab.moments[round((mark.place[0] - 62) / pitch)]
        assert before.step < moment.step == int(mark.text.removeprefix("step "))


def test_full_blocks_have_an_owner_and_freed_ones_a_number():
    lab = fragmentation(moment=0, select="paged")
    sentences = []
    while lab.forward():
        sentences.append(lab.words()["say"])
    text = " ".join(sentences)
    assert "The blocks of G and H were full, they got #15 and #16." in text
    assert "A and C are finished: #5, #4, #2 and #1 are free again." in text and ".." not in text
