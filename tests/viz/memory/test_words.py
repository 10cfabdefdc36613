"""Sentences and labels."""

from dataclasses import replace

import pytest
from runs import crowded, recorded_run

from pagedlab.trace import TraceDriver
from pagedlab.trace.events import BlocksFreed
from pagedlab.viz.kit import labels
from pagedlab.viz.kit.badge import badge_text
from pagedlab.viz.kit.narrator import _gave_back, in_brief, narrate, next_step
from pagedlab.viz.kit.scene import Scene
from pagedlab.viz.kit.text import fit, width
from pagedlab.viz.memory.words import headline, scale


def narration(trace, position, selected="A"):
    driver = TraceDriver(trace)
    driver.seek(position)
    first = driver.num_events(position - 1) if position else 0
    return narrate(trace.events[first : driver.num_events(position)], driver.state(), selected)


def test_a_prefill_is_told_with_its_blocks_and_that_nothing_is_reserved():
    trace = recorded_run([list(range(9))])
    assert narration(trace, 1)["A"] == (
        "Prefill wrote A's 9 tokens into the next free blocks #1, #2 and #3: two blocks full, the last holds one. "
        "No further block is reserved."
    )


def test_a_decode_step_says_whether_a_block_was_needed():
    trace = recorded_run([list(range(9))], max_tokens=6)
    assert "at offset 1. 2 slots left, so no block was asked for." in narration(trace, 2)["A"]
    full = "Now the block is full (◆: others can find it by its hash); no block was asked for yet."
    assert full in narration(trace, 4)["A"]
    assert "got #4 from the head of the free queue" in narration(trace, 5)["A"]
    assert "A is finished (all its tokens are there): #4, #3, #2 and #1 are free again." in narration(trace, 6)["A"]


def test_the_others_are_told_in_brief():
    trace = recorded_run([list(range(9)), list(range(40, 45))])
    assert narration(trace, 1)["B"] == "B wrote 5 tokens into new #4 and #5."


def test_a_chunk_says_how_far_the_prompt_is():
    trace = recorded_run([list(range(20))], budget=8)
    assert "Prefill wrote 8 tokens of A's 20" in narration(trace, 1)["A"]
    assert "Prefill wrote 8 more tokens of A's 20" in narration(trace, 2)["A"]


def test_hits_evictions_preemption_and_waiting_are_told():
    trace = crowded()
    steps = range(TraceDriver(trace).num_steps + 1)
    everything = " ".join(text for k in steps for text in narration(trace, k, None).values())
    for phrase in (
        "found its first 8 tokens in memory",
        "is lost",
        "was preempted",
        "has to wait",
        "is finished",
        "arrived with",
    ):
        assert phrase in everything, phrase


def test_a_preemption_is_told_before_what_it_made_room_for_and_shared_blocks_are_not_given_back():
    trace = crowded()
    driver = TraceDriver(trace)
    seen = 0
    for k in range(1, driver.num_steps + 1):
        driver.seek(k)
        events = trace.events[driver.num_events(k - 1) : driver.num_events(k)]
        gone = [e.request_id for e in events if e.kind == "request_preempted"]
        assert ("make room" in in_brief(events, driver.state(), None, shorter=3)) == bool(gone)
        for who in gone:
            freed = next(e for e in events if e.kind == "blocks_freed" and e.request_id == who)
            shared = [b for b in freed.block_ids if b not in {*freed.to_head, *freed.to_tail}]
            text = narration(trace, k, who)[who]
            assert f"No free block was left: {who} was preempted" in text and text.count("which others hold") == bool(
                shared
            )
            for b in shared:
                assert f"#{b}" not in text.split(", let go of")[0]
        for selected in [None, *driver.state().requests]:
            mine = narration(trace, k, selected).get(selected, "") if selected else ""
            both = f"{mine} {in_brief(events, driver.state(), selected)}"
            assert both.count("No free block was left") == bool(gone)  # told once, whoever is looked at
            if gone:
                assert both.strip().startswith("No free block was left: ")
        seen += len(gone)
    assert seen


def test_who_made_room_says_what_is_free_and_what_others_hold():
    freed = BlocksFreed(source="", request_id="K", block_ids=(13, 4, 1), to_head=(13,), to_tail=(4,))
    assert _gave_back(freed) == ", gave back #13 and #4, let go of #1, which others hold,"
    assert _gave_back(replace(freed, block_ids=(13, 4))) == ", gave back #13 and #4"
    second = replace(freed, request_id="L", block_ids=(7, 1, 2), to_head=(7,), to_tail=(1,))  # the last one who held #1
    assert _gave_back(freed, second) == ", gave back #13, #4, #1 and #7, let go of #2, which others hold,"
    assert _gave_back(replace(freed, block_ids=(1,), to_head=(), to_tail=())) == ", let go of #1, which others hold,"


def test_every_event_that_changes_a_request_is_told():
    trace = crowded()
    driver = TraceDriver(trace)
    for k in range(1, driver.num_steps + 1):
        events = trace.events[driver.num_events(k - 1) : driver.num_events(k)]
        touched = {e.request_id for e in events if e.kind in ("slot_written", "request_preempted", "request_finished")}
        assert touched <= set(narration(trace, k))


def test_the_button_is_named_after_what_the_step_does():
    trace = recorded_run([list(range(9)), list(range(5))], arrive_after=[0, 3])
    driver = TraceDriver(trace)
    driver.seek(1)
    assert next_step(driver.state()) == "Decode one token"
    driver.seek(4)
    assert next_step(driver.state()) == "Run one step"


def test_the_headline_counts_tokens_blocks_and_slots():
    trace = recorded_run([list(range(9))])
    driver = TraceDriver(trace)
    driver.step()
    scene = Scene(driver.state(), [], trace.header, "A", 1, 6)
    assert headline(scene) == "9 tokens in 3 blocks, 3 slots left"


def test_the_badge_says_what_produced_the_picture():
    header = {"device": "NVIDIA H200", "dtype": "bfloat16", "date": "2026-07-01T10:00:00+00:00"}
    assert badge_text(header, live=True) == "live · NVIDIA H200 · bf16"
    assert badge_text(header, live=False) == "recorded · NVIDIA H200 · bf16 · 2026-07-01"


def test_the_scale_line_is_computed_from_the_model():
    header = {"model_shape": {"num_layers": 30, "num_kv_heads": 3, "head_size": 64, "bytes_per_element": 4}}
    assert scale(header, 4) == "1 block = 4 tokens × 30 layers × 2 (K, V) × 3 heads × 64 numbers × 4 bytes = 180 KiB"
    assert scale({}, 4) == ""


def test_names_stay_the_requests_own_where_they_fit_and_never_collide():
    assert labels.names(["A", "B"]) == {"A": "A", "B": "B"}
    assert labels.names(["A", "request-17", "B", "a very long name"]) == {
        "A": "A", "request-17": "C", "B": "B", "a very long name": "D",
    }  # fmt: skip
    many = labels.names([f"request-{i}" for i in range(100)])
    assert len(set(many.values())) == 100


@pytest.mark.parametrize(
    "raw,shown",
    [
        (" cat", "cat"),
        ("  ", "␣␣"),
        ("", "␣"),
        ("\\n", "↵"),
        ("\n", "↵"),
        ("\x00", "\u2400"),
        ("\u202eabc", "\ufffdabc"),
    ],
)
def test_a_token_is_shown_without_its_space_and_nothing_is_invisible(raw, shown):
    assert labels.token(raw) == shown


def test_a_quotation_mark_is_not_quoted_with_its_like():
    assert labels.quoted(" cat") == "“cat”"
    assert [labels.quoted(t) for t in (' "', "'m", "”")] == ['‹"›', "‹'m›", "‹”›"]


def test_several_owners_in_fewer_and_fewer_letters():
    assert labels.crowd(["A"]) == ["A"]
    assert labels.crowd(["B", "A"]) == ["B A", "B +1", "×2"]
    assert labels.crowd(["A/2", "A/0", "A/1"]) == ["A/2 A/0 A/1", "A/0–2", "A/2 +2", "×3"]
    assert labels.crowd(["A/0", "A/2"]) == ["A/0 A/2", "A/0 +1", "×2"]  # A/1 is not among them
    assert labels.crowd(["A/0", "B/1"]) == ["A/0 B/1", "A/0 +1", "×2"]


def test_text_is_cut_to_the_room_that_it_has():
    for text in ("short", "a much longer text than fits", "日本語日本語日本語", "🙂🙂🙂🙂🙂"):
        for room in (5, 20, 60, 300):
            for mono in (True, False):
                assert width(fit(text, room, 11, mono=mono), 11, mono=mono) <= room


@pytest.mark.parametrize(
    "n,word", [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st"), (113, "113th")]
)
def test_ordinals(n, word):
    assert labels.ordinal(n) == word
