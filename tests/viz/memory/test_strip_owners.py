"""The strip of time shows every owner of a shared block."""

import pytest
from runs import recorded_run

from pagedlab import LLM, SamplingParams
from pagedlab.trace import replay
from pagedlab.viz.kit import labels
from pagedlab.viz.kit.history import History
from pagedlab.viz.kit.marks import picture
from pagedlab.viz.kit.text import width
from pagedlab.viz.memory import strip

SHARED = list(range(10, 18))


def drawn(trace, columns=24):
    history = History(trace)
    history.update()
    return history, picture(strip.drawn(history, columns).marks)


def runs_at(history, step):
    """block -> its owners after this step, by the history."""
    found = {}
    for block, runs in history.runs.items():
        for run in runs:
            if run.first <= step and (run.last is None or step <= run.last):
                found[block] = run.owners
    return found


@pytest.fixture(scope="module")
def forked():
    llm = LLM("tiny-random", record=True, era="paper", block_size=4, num_gpu_blocks_override=24)
    four = SamplingParams(n=4, max_tokens=6, ignore_eos=True, temperature=1.0, seed=3)
    llm.add_request("Hello there, you", four, request_id="A")
    while llm.has_unfinished_requests():
        llm.step()
    return llm.trace


def two():
    return recorded_run([[*SHARED, 1, 2], [*SHARED, 4, 5]], arrive_after=[0, 2], max_tokens=8)


@pytest.mark.parametrize("which", ["two", "forked"])
def test_the_history_knows_all_owners_after_every_step(which, forked):
    trace = two() if which == "two" else forked
    history, _ = drawn(trace)
    most = 0
    for step, end in enumerate(trace.step_ends(), start=1):
        state = replay(trace, end)
        owners = {}
        for request_id, table in state.tables.items():
            for block in dict.fromkeys(table):
                owners[block] = (*owners.get(block, ()), request_id)
        assert {b: o for b, o in runs_at(history, step).items() if o} == owners
        most = max([most, *map(len, owners.values())])
    assert most == (2 if which == "two" else 4)


def test_two_owners_split_the_bar_and_have_their_letters():
    history, marks = drawn(two())
    block, run = next((b, r) for b, runs in history.runs.items() for r in runs if len(r.owners) == 2)
    id = f"run.{block}.{run.first}"
    hues = labels.family_hues(history.state.requests)
    assert [marks[i].cls for i in (id, f"{id}.1")] == [f"cell sharp c{hues[r]}" for r in ("A", "B")]
    size = 9.5 if "s9" in marks[f"{id}.t"].cls.split() else 8
    assert marks[f"{id}.t"].text == "A B" and marks[f"{id}.tag"].place[2] >= width("A B", size, bold=True)
    upper, lower = marks[id].place, marks[f"{id}.1"].place
    assert upper[1] + upper[3] <= lower[1] and lower[1] + lower[3] <= upper[1] + strip.HIGHEST - 1.99
    assert "several" in marks["time.key.shared.w"].text


def test_more_owners_than_fit_are_counted(forked):
    _, marks = drawn(forked, columns=24)
    shared = [mark.text for id, mark in marks.items() if id.endswith(".t") and f"{id[:-2]}.1" in marks]
    assert shared and all(text in ("A/0 A/1 A/2 A/3", "A/0–3", "×4") for text in shared), shared
    _, narrow = drawn(forked, columns=96)
    counted = [mark.text for id, mark in narrow.items() if id.endswith(".t") and f"{id[:-2]}.1" in narrow]
    assert any(text in ("A/0–3", "×4") for text in counted), counted


def test_nobody_shares_so_nothing_is_explained():
    _, marks = drawn(recorded_run([list(range(6))]))
    assert not any(id.startswith("time.key.shared") for id in marks)


def test_the_key_stays_clear_of_the_step_and_inside(forked):
    for trace in (two(), forked):
        _, marks = drawn(trace)
        for id in ("time.key.shared.w", "time.key.kept.w", "time.key.gone"):
            if id in marks:
                assert marks[id].place[0] + width(marks[id].text, 10.5) < 800
