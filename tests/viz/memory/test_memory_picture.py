"""The memory map's marks against the state that they show."""

import itertools
import re

import pytest
from runs import crowded, patched, recorded_run, scenes

from pagedlab.engine import LLM, SamplingParams
from pagedlab.trace import TraceDriver, replay
from pagedlab.viz.kit import labels
from pagedlab.viz.kit.history import History
from pagedlab.viz.kit.marks import diff, picture
from pagedlab.viz.kit.text import width
from pagedlab.viz.memory import layout as memory_layout
from pagedlab.viz.memory import strip
from pagedlab.viz.memory.lab import memory_map

CROWDED = crowded()


def test_the_crowded_run_holds_what_the_tests_are_about():
    kinds = {e.kind for e in CROWDED.events}
    assert {"request_preempted", "block_evicted", "block_touched", "blocks_freed", "allocation_failed"} <= kinds


def test_table_rows_say_what_the_block_table_says():
    for scene in scenes(CROWDED):
        marks = picture(memory_layout.marks(scene))
        table = scene.state.tables.get(scene.selected, [])
        shown = {int(id.split(".")[1]): m.text for id, m in marks.items() if re.fullmatch(r"table\.\d+\.p", id)}
        assert all(shown[i] == f"#{table[i]}" for i in shown)
        assert len(shown) == len(table) or "table.more" in marks
        for i in shown:
            filled, size = scene.state.filled(scene.selected, i), scene.state.block_size
            assert marks[f"table.{i}.fill"].text == f"{filled}/{size}"
            text = marks[f"table.{i}.ref"].text  # one notation, in every row
            assert re.match(r"ref_cnt (\d+)", text)[1] == str(scene.state.ref_cnt[table[i]])
            if ": " in text:
                names = text.split(": ")[1].split(", ")
                assert names == [scene.names[r] for r in scene.state.owners(table[i])]
            slots = [m for id, m in marks.items() if re.fullmatch(rf"table\.{i}\.(s\d+|full|rest)", id)]
            assert slots, "how full the block is, is drawn in rows of every height"


def test_every_block_shows_its_owners_its_slots_and_its_turn():
    for scene in scenes(CROWDED):
        state, marks = scene.state, picture(memory_layout.marks(scene))
        turns = {b: i for i, b in enumerate(state.free)}
        for block in range(state.num_blocks):
            owners = {id.split(".", 3)[3] for id in marks if id.startswith(f"block.{block}.owner.")}
            assert owners == set(state.owners(block)), block
            filled = [marks[f"block.{block}.s{o}"] for o in range(state.block_size) if f"block.{block}.s{o}" in marks]
            if owners:
                assert len(filled) == state.block_size
                written = [s is not None for s in state.slots[block]]
                assert ["hatched" not in m.cls for m in filled] == written
            if block in turns:
                assert marks[f"block.{block}.turn"].text == (
                    "next free" if turns[block] == 0 else labels.ordinal(turns[block] + 1)
                )
            assert (f"block.{block}.cached" in marks) == (block in state.cached)
        assert ("null" in marks["block.0"].cls) and not state.owners(0)
        assert (marks["block.0.word"].text, marks["block.0.never"].text) == ("null block", "never used")


def test_the_selected_requests_blocks_have_the_same_chip_in_the_table_and_in_the_pool():
    for scene in scenes(CROWDED):
        marks = picture(memory_layout.marks(scene))
        chips = {int(id.split(".")[1]) for id in marks if re.fullmatch(r"block\.\d+\.chip", id)}
        assert chips == set(scene.table)
        if not chips:
            continue
        rows = [i for i in range(len(scene.table)) if f"table.{i}" in marks]
        looks = {marks[f"table.{i}.chip"].cls.split()[-1] for i in rows}
        looks |= {marks[f"block.{b}.chip"].cls.split()[-1] for b in chips}
        assert looks <= {scene.hue(scene.selected)}


def test_a_shared_block_has_a_stripe_in_the_hue_of_its_other_owner():
    shared = list(range(8))
    trace = recorded_run([[*shared, 1], [*shared, 2]], arrive_after=[0, 2], max_tokens=8)
    seen = 0
    for scene in scenes(trace):
        marks = picture(memory_layout.marks(scene))
        for block, owners in scene.owners.items():
            others = [r for r in owners if r != scene.selected] if scene.selected in owners else owners[1:]
            stripes = [marks[id].cls.split()[-1] for id in (f"block.{block}.also.0",) if id in marks]
            assert stripes == [scene.hue(r) for r in others], block
            seen += len(stripes)
    assert seen


def test_the_pools_key_names_the_selected_request_the_others_and_what_the_sign_means():
    titles = set()
    for scene in scenes(CROWDED):
        marks = picture(memory_layout.marks(scene))
        assert ("title.cached" in marks) == bool(scene.state.cached)
        others = any(set(owners) - {scene.selected} for owners in scene.owners.values())
        if scene.table and others and not scene.swapped:
            assert marks["key.mine"].text == scene.names[scene.selected] and marks["key.others"].text == "others"
            assert "dim" in marks["key.others.cell"].cls and "dim" not in marks["key.mine.cell"].cls
        else:
            assert "key.mine" not in marks
        titles |= {marks["title.cached"].text} if scene.state.cached else set()
    assert titles and all("reus" in text for text in titles), titles


def test_rows_of_time_are_the_blocks_that_were_held_and_who_is_gone_is_named():
    trace = recorded_run([list(range(9)), [1, 2]], names=["A", "q"], max_tokens=6, num_blocks=16, arrive_after=[0, 1])
    history = History(trace)
    history.update()
    marks = picture(strip.drawn(history, 24).marks)
    rows = {int(id.split(".")[2]) for id in marks if re.fullmatch(r"time\.row\.\d+", id)}
    assert rows == {b for b, runs in history.runs.items() if runs}
    assert f"({len(rows)} of 15 used so far)" in marks["time.caption"].text
    assert marks["time.key.gone"].text == "A, q: finished earlier"
    history.runs[15] = []  # taken and given back within one step
    assert "time.row.15" not in picture(strip.drawn(history, 24).marks)


def test_the_label_of_the_latest_step_does_not_sound_like_the_end():
    llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=12)
    llm.add_request("hello you", SamplingParams(max_tokens=6, ignore_eos=True))
    lab = memory_map(llm)
    texts = []
    while True:
        texts.append(picture(lab.static_marks())["step"].text)
        if not lab.can_step:
            break
        lab.move(lab.position + 1)
    assert texts == [f"step {k} of {k} so far" for k in range(1, 6)] + ["step 6 of 6"]
    lab.move(2)
    past = picture(lab.static_marks())["step"]
    assert past.text == "step 2 of 6 · the past" and "bold" in past.cls
    recorded = memory_map(lab.trace, step=3)
    assert picture(recorded.static_marks())["step"].text == "step 3 of 6"


def test_every_free_block_of_a_large_pool_says_when_its_turn_is():
    for scene in scenes(run_for(40, 4)):
        marks = picture(memory_layout.marks(scene))
        turns = [marks[f"block.{b}.turn"].text for b in scene.state.free]
        assert turns[0] in ("next", "next free")
        assert turns[1:9] == [labels.ordinal(k) for k in range(2, 10)]
        assert set(turns[9:]) == {"later"}
        assert marks["block.0.word"].text in ("null block", "null")


def test_what_was_written_in_this_step_is_outlined_and_nothing_else():
    for scene in scenes(CROWDED):
        marks = picture(memory_layout.marks(scene))
        outlined = {int(id.split(".")[1]) for id in marks if re.match(r"block\.\d+\.new", id)}
        assert outlined == {b for b, _ in scene.state.written if scene.owners.get(b)}


def test_tokens_are_where_the_request_sees_them():
    for scene in scenes(CROWDED):
        if not scene.table:
            continue
        state, request = scene.state, scene.state.requests[scene.selected]
        marks = picture(memory_layout.marks(scene))
        for position in range(request.num_tokens):
            mark = marks.get(f"token.{scene.selected}.{position}.t")
            if mark is not None and position < request.num_computed_tokens:
                word = labels.token(request.texts[position])
                assert mark.text == word or mark.text.endswith("…") and word.startswith(mark.text[:-1])
                card = marks[f"seen.{position // state.block_size}"]
                assert card.place[1] <= mark.place[1] <= card.place[1] + card.place[3]
        pending = [p for p, _ in request.pending]
        if pending:
            assert "waiting" in marks[f"token.{scene.selected}.{pending[0]}"].cls


def test_the_arrow_goes_to_the_block_of_the_row_written_last():
    for scene in scenes(CROWDED):
        marks = picture(memory_layout.marks(scene))
        assert ("arrow" in marks) == bool(scene.table)
        if not scene.table:
            continue
        written = {b for b, _ in scene.state.written}
        rows = [i for i, b in enumerate(scene.table) if b in written] or range(len(scene.table))
        target = marks[f"block.{scene.table[max(rows)]}"].place
        x, y = map(float, re.findall(r"[HV]([\d.]+)", marks["arrow"].text)[-2:])
        assert target[0] < x < target[0] + target[2] and abs(y - target[1]) < 1


def test_applying_all_patches_gives_the_full_picture():
    history = History(CROWDED)
    history.update()
    shown = {}
    before = {}
    for scene in scenes(CROWDED):
        now = picture([*memory_layout.marks(scene), *strip.drawn(history, 20).marks])
        shown = patched(shown, diff(before, now))
        assert shown == {id: mark.to_json() for id, mark in now.items()}
        before = now


def test_the_strip_tells_who_held_which_block_after_each_step():
    history = History(CROWDED)
    history.update()
    driver = TraceDriver(CROWDED)
    for step in range(1, driver.num_steps + 1):
        state = replay(CROWDED, driver.num_events(step))
        for block in range(1, state.num_blocks):
            runs = [
                r.owner for r in history.runs.get(block, []) if r.first <= step and (r.last is None or step <= r.last)
            ]
            owners = state.owners(block)
            assert runs == (owners[:1] or ([""] if block in state.cached else [])), (step, block)


# --------------------------------------------------------------------------------------------------- layout

POOLS = [2, 3, 8, 12, 13, 22, 24, 25, 40, 80, 81, 200, 256, 512, 513, 1024, 4096]
SIZES = [1, 2, 3, 4, 5, 8, 12, 16, 32, 64, 128, 256]


def run_for(num_blocks, block_size):
    tokens = max(1, min((num_blocks - 1) * block_size // 2, 600))
    return recorded_run(
        [list(range(tokens)), list(range(5, 5 + max(1, tokens // 3)))],
        num_blocks=num_blocks,
        block_size=block_size,
        max_tokens=4,
        max_steps=3,
    )


def box(mark):
    """A text's box, reckoned from the width of its font."""
    size = next((float(c[1:]) for c in mark.cls.split() if re.fullmatch(r"s\d+", c)), 11.5)
    w = width(mark.text, size, mono="mono" in mark.cls, bold="bold" in mark.cls or "semi" in mark.cls)
    x, y = mark.place
    x -= w / 2 if "mid" in mark.cls.split() else w if "end" in mark.cls.split() else 0
    return x, y - size * 0.75, w, size * 0.95


def test_every_mark_of_a_long_run_has_a_size():
    for num_blocks in (9, 13, 24, 60):
        trace = recorded_run([list(range(8)), [1, 2, 3], list(range(30, 39))], max_tokens=9, num_blocks=num_blocks)
        for scene in scenes(trace):
            for mark in memory_layout.marks(scene):
                assert len(mark.place) != 4 or min(mark.place[2:]) > 0, mark


def overlap(a, b):
    return (
        a[0] + a[2] > b[0] + 0.6 and b[0] + b[2] > a[0] + 0.6 and a[1] + a[3] > b[1] + 0.6 and b[1] + b[3] > a[1] + 0.6
    )


@pytest.mark.parametrize("num_blocks,block_size", [*itertools.product(POOLS, [1, 4, 16]), *((12, s) for s in SIZES)])
def test_nothing_overlaps_or_leaves_the_frame(num_blocks, block_size):
    trace = run_for(num_blocks, block_size)
    history = History(trace)
    history.update()
    for scene in scenes(trace):
        marks = [*memory_layout.marks(scene), *strip.drawn(history, 24).marks]
        cards = [m for m in marks if m.cls.startswith("card")]
        for m in marks:
            if m.cls.startswith("path"):
                continue
            x, y, w, h = box(m) if m.cls.startswith("text") else m.place
            assert x >= 0 and y >= 0 and x + w <= 960 and y + h <= 510, m
            assert w >= 0 and h > 0, m
        for a, b in itertools.combinations(cards, 2):
            assert not overlap(a.place, b.place), (a, b)
        free_text = [
            m
            for m in marks
            if m.cls.startswith("text")
            and re.match(r"head|title|story|free|scale|step|waiting|time\.[tc]|badge|seen\.none|chip", m.id)
        ]
        for a, b in itertools.combinations(free_text, 2):
            assert not overlap(box(a), box(b)), (a, b)


@pytest.mark.parametrize("block_size", SIZES)
def test_a_tokens_text_fits_into_its_slot(block_size):
    for scene in scenes(run_for(12, block_size)):
        marks = picture(memory_layout.marks(scene))
        for id, mark in marks.items():
            if id.startswith("token.") and id.endswith(".t"):
                slot = marks[id[:-2]].place
                x, _, w, _ = box(mark)
                assert slot[0] <= x and x + w <= slot[0] + slot[2]


def test_a_pool_that_is_too_large_is_drawn_coarser_and_says_so():
    for scene in scenes(run_for(4096, 16)):
        marks = picture(memory_layout.marks(scene))
        assert "16 neighbouring blocks" in marks["title.pool.2"].text
        assert sum(m.cls.startswith("card") and id.startswith("cell.") for id, m in marks.items()) == 256
    fine = picture(memory_layout.marks(next(scenes(run_for(256, 16)))))
    assert sum(bool(re.fullmatch(r"block\.\d+", id)) for id in fine) == 256


def test_a_long_table_leaves_rows_out_and_says_how_many():
    for scene in scenes(recorded_run([list(range(80))], block_size=4, num_blocks=30, max_tokens=4, max_steps=2)):
        if len(scene.table) < 20:
            continue
        marks = picture(memory_layout.marks(scene))
        shown = [id for id in marks if re.fullmatch(r"table\.\d+", id)]
        assert marks["seen.more"].text == f"… {len(scene.table) - len(shown)} more blocks"
        assert f"table.{len(scene.table) - 1}" in marks and "table.0" in marks


def test_many_requests_are_counted_where_their_letters_do_not_fit():
    trace = recorded_run([[i] for i in range(40)], num_blocks=64, max_tokens=2, max_steps=1)
    marks = picture(memory_layout.marks(list(scenes(trace))[-1]))
    chips = [id for id in marks if id.startswith("chip.")]
    assert int(marks["chips.more"].text[1:]) + len(chips) == 40


def test_every_block_but_the_null_block_can_be_pointed_at():
    for scene in scenes(CROWDED):
        marks = picture(memory_layout.marks(scene))
        cards = {int(id.split(".")[1]): m.cls for id, m in marks.items() if re.fullmatch(r"block\.\d+", id)}
        assert {b for b, cls in cards.items() if "askable" not in cls.split()} == {0}
        assert len(cards) == scene.state.num_blocks


def numbers(path):
    """The corners of an arrow's path, curves taken for corners."""
    x = y = 0.0
    for letter, values in re.findall(r"([MHVQ])([-\d. ]+)", path):
        place = list(map(float, values.split()))
        x, y = (place[0], y) if letter == "H" else (x, place[0]) if letter == "V" else place[-2:]
        yield x, y


@pytest.mark.parametrize("num_blocks", POOLS)
def test_the_arrow_runs_between_the_blocks_and_never_over_one(num_blocks):
    scene = list(scenes(run_for(num_blocks, 16)))[-1]
    scene = next(s for s in scenes(run_for(num_blocks, 16)) if s.table) if not scene.table else scene
    marks = picture(memory_layout.marks(scene))
    cells = [m.place for id, m in marks.items() if re.fullmatch(r"(block|cell)\.\d+", id)]
    corners = list(numbers(marks["arrow"].text))
    for (x0, y0), (x1, y1) in itertools.pairwise(corners[:-1]):  # the last bit goes into the block itself
        for x, y, w, h in cells:
            apart = max(x0, x1) <= x or min(x0, x1) >= x + w or max(y0, y1) <= y or min(y0, y1) >= y + h
            assert apart, (corners, (x, y, w, h))


def test_a_low_row_of_the_table_has_room_for_how_often_its_block_is_held():
    shared = list(range(16 * 9))
    trace = recorded_run([[*shared, 1], [*shared, 2], [*shared, 3]], block_size=16, num_blocks=600, max_tokens=2)
    for scene in scenes(trace):
        marks = picture(memory_layout.marks(scene))
        for id, ref in marks.items():
            if re.fullmatch(r"table\.\d+\.ref", id) and ref.text.startswith("×"):
                fill = marks[id.replace(".ref", ".fill")]
                end = ref.place[0] + width(ref.text, 9.5, bold=True)
                assert end <= fill.place[0] - width(fill.text, 10.5, mono=True), (ref, fill)


def test_a_long_sentence_goes_on_in_the_second_line():
    trace = recorded_run([list(range(62))], block_size=4, num_blocks=40, max_tokens=2)
    sentences = set()
    for scene in scenes(trace):
        marks = picture(memory_layout.marks(scene))
        if "story.2" in marks:
            text = f"{marks['story'].text} {marks['story.2'].text}"
            assert text == marks["story"].tip and "…" not in text.replace(" … (", "")
            sentences.add(text)
        assert "…" not in marks["story"].text.replace(" … (", "")
    assert any("is finished" in text and "are free again" in text for text in sentences), sentences
