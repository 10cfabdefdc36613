"""The knobs lab: what is computed for the card, what is measured here, and what is drawn of both."""

import json
import xml.etree.ElementTree as ET

import pytest
from front_end import data_of

from pagedlab.engine import LLM
from pagedlab.engine.cards import CARDS, HERE, MODELS, CardModel, Held, card_memory, plan_card
from pagedlab.errors import PagedlabError
from pagedlab.trace import events as ev
from pagedlab.trace import replay
from pagedlab.viz import knobs
from pagedlab.viz.board import layout
from pagedlab.viz.board.run import MEASURES, KnobRun, run_knobs, workload
from pagedlab.viz.kit.marks import picture

GIB = 1 << 30
FEW = workload(6)


@pytest.fixture(scope="module")
def base():
    return LLM("tiny-random", device="cpu", num_gpu_blocks_override=2)


@pytest.fixture(scope="module")
def lab():
    lab = knobs()
    lab.run(enable_prefix_caching=False)
    lab.run(gpu_memory_utilization=0.99)
    return lab


def test_the_shape_gives_the_weights_that_the_loaded_model_has(base):
    model = CardModel(base.model.config, base.model.dtype.itemsize)
    assert model.num_bytes == base.model.num_bytes
    assert round(CardModel(MODELS["Llama-3.1-8B"]).num_parameters / 1e9, 2) == 8.03  # as on its model card


def test_a_card_has_the_memory_that_the_driver_reports():
    reported = {"T4": 14.6, "L4": 22.0, "A100": 39.4, "H100": 79.1, "H200": 139.8}  # GiB, torch's total_memory
    assert {card: round(card_memory(card) / GIB, 1) for card in CARDS} == reported
    sheet = {"T4": 16, "L4": 24, "A100": 40, "H100": 80, "H200": 141}
    assert all(0.91 * sheet[card] < reported[card] < sheet[card] for card in CARDS)


def test_the_sum_is_near_what_a_real_vllm_found(monkeypatch):
    """vLLM 0.31.0 on an A100 of 80 GB (the driver: 79.25 GiB) with Llama-3.1-8B in bfloat16 logged 460,496 tokens."""
    monkeypatch.setitem(CARDS, "A100, 80 GB", 79.25)
    assert plan_card("A100, 80 GB", "Llama-3.1-8B").num_tokens == pytest.approx(460_496, rel=0.002)


def test_the_pool_is_what_the_formula_leaves():
    plan = plan_card("L4", gpu_memory_utilization=0.9, held=Held(context=0.25, graphs=1.0))
    b = plan.budget
    assert b.card == int(22.0 * GIB)
    left = int(0.9 * b.card) - b.weights - b.activations - int(1.25 * GIB)
    assert plan.outcome == "fits" and b.num_blocks == left // b.bytes_per_block and not b.measured
    assert b.bytes_per_block == 2 * 32 * 8 * 128 * 2 * 16
    assert plan.num_tokens == (b.num_blocks - 1) * 16


def test_too_high_a_utilization_ends_in_out_of_memory_on_each_card():
    for card, most in (("T4", 0.96), ("L4", 0.97), ("A100", 0.98), ("H100", 0.99), ("H200", 0.99)):
        assert plan_card(card, "Llama-3.2-1B", gpu_memory_utilization=most).outcome == "fits"
        plan = plan_card(card, "Llama-3.2-1B", gpu_memory_utilization=most + 0.01)
        assert plan.outcome == "out of memory" and "free at the start" in plan.summary
    crowded = plan_card("H100", held=Held(others=10), gpu_memory_utilization=0.9)
    assert crowded.outcome == "out of memory"  # others on the card count as well


def test_a_model_too_large_for_the_card_leaves_no_room():
    plan = plan_card("T4", "Llama-3.1-8B")
    assert plan.outcome == "no room" and plan.budget.num_blocks == 0 and "No room for a pool" in plan.summary
    assert plan_card(HERE).budget.card > 0


def test_figures_are_those_of_the_run(base):
    run = run_knobs(1, plan_card("L4", enable_prefix_caching=False), base, load=FEW, fraction=64)
    events = run.llm.trace.events
    assert run.ran and run.config["num_gpu_blocks_override"] == run.plan.budget.num_blocks // 64 == run.llm.num_blocks
    assert run.measured["preemptions"] == sum(isinstance(e, ev.RequestPreempted) for e in events)
    assert run.measured["computed"] == sum(isinstance(e, ev.SlotWritten) for e in events)
    running, waste, tables = [], [], []
    for step in range(1, run.steps + 1):  # the slow way: replay to where each step's tokens are sampled
        first = next(i for i, e in enumerate(events) if isinstance(e, ev.StepStarted) and e.step == step)
        stop = next(i for i in range(first, len(events)) if isinstance(events[i], (ev.TokenSampled, ev.StepEnded)))
        state = replay(run.llm.trace, stop)
        running.append(len(state.running))
        lengths = [len(state.tables[r]) for r in state.running]
        tables += lengths
        held = len({b for r in state.running for b in state.tables[r]})
        written = sum(state.requests[r].num_computed_tokens for r in state.running)
        waste.append((sum(lengths) * 16 - written) / (held * 16))
    assert run.measured["concurrency"] == pytest.approx(sum(running) / len(running))
    assert run.measured["waste"] == pytest.approx(100 * sum(waste) / len(waste))
    assert run.measured["table"] == pytest.approx(sum(tables) / len(tables))


def test_each_knob_does_what_the_chapter_says(base):
    def measured(**values):
        return run_knobs(1, plan_card("L4", **values), base).measured

    default = measured()
    assert measured(gpu_memory_utilization=0.85)["preemptions"] > default["preemptions"]
    assert measured(gpu_memory_utilization=0.97)["preemptions"] <= default["preemptions"]
    uncached = measured(enable_prefix_caching=False)
    assert uncached["computed"] > default["computed"] and uncached["concurrency"] < default["concurrency"]
    roomy = measured(gpu_memory_utilization=0.95)
    uncached = measured(gpu_memory_utilization=0.95, enable_prefix_caching=False)
    assert uncached["preemptions"] > roomy["preemptions"] == 0 < default["preemptions"]
    large, small = measured(block_size=64), measured(block_size=4)
    assert small["waste"] < default["waste"] < large["waste"] and small["table"] > default["table"] > large["table"]
    assert measured(max_num_seqs=128)["concurrency"] < default["concurrency"]


def test_a_pool_that_no_request_fits_in_is_told_and_not_run(base):
    run = run_knobs(1, plan_card("L4", gpu_memory_utilization=0.78), base)
    assert run.outcome == "too small" and "one request may need" in run.summary and not run.measured


def test_the_board_draws_the_figures_and_stays_in_its_frame(lab):
    assert [run.outcome for run in lab.runs] == ["ran", "ran", "out of memory"]
    marks = picture(lab.board.strip().marks)
    for run in lab.runs[:2]:
        for measure in MEASURES:
            assert marks[f"run.{run.number}.{measure}"].text == layout.value(measure, run.measured[measure])
    assert [marks[f"run.3.none.{i}"].text for i in (0, 1)] == ["out of", "memory"]
    for position in range(4):
        lab.board.seek(position)
        for mark in picture(lab.board.static_marks()).values():
            if mark.cls.split()[0] in ("card", "cell", "over", "top"):
                x, y, w, h = mark.place
                assert x >= 0 and y >= 0 and x + w <= layout.SIZE[0] + 0.5 and y + h <= layout.SIZE[1], mark
        assert len(json.dumps(lab.board._message(whole=True)).encode()) < 20_000
    lab.choose(2)


def test_the_bar_of_the_card_is_to_scale(lab):
    lab.choose(1)
    marks, b = picture(lab.board.marks()), lab.runs[0].plan.budget
    widths = {name: marks[f"card.{name}"].place[2] for name in ("weights", "activations", "context", "graphs", "pool")}
    whole = marks["card"].place[2]
    assert widths["weights"] / whole == pytest.approx(b.weights / b.card)
    assert sum(widths.values()) / whole == pytest.approx(0.92, abs=1e-6)
    assert widths["pool"] / whole == pytest.approx(b.pool / b.card, abs=1e-3)
    lab.choose(3)
    marks = picture(lab.board.marks())
    assert "Out of memory" in marks["headline"].text
    edge, over = marks["card.edge"].place[0] + 1, marks["card.over"].place
    short = b.card * (0.99 - 1) + 0.5 * GIB  # how much more is asked for than is free
    assert over[2] / (edge - layout.LEFT) == pytest.approx(short / b.card, rel=1e-3)


def test_the_memory_map_follows_the_chosen_run(lab):
    lab.choose(1)
    assert lab.map.driver.trace is lab.runs[0].llm.trace and lab._below.children == (lab.map,)
    lab.choose(2)
    assert lab.map.driver.trace is lab.runs[1].llm.trace and lab.map.position == lab.runs[1].opening
    lab.map.forward()
    lab.board.back()  # as an arrow key in the notebook would
    assert lab.map.driver.trace is lab.runs[0].llm.trace
    lab.choose(3)
    assert lab._below.children == ()
    lab.choose(2)


def test_controls_follow_and_foretell_the_pool(lab):
    assert lab.settings["gpu_memory_utilization"] == 0.99
    lab._knobs["gpu_memory_utilization"].value = 0.8
    assert "computed" in lab._notice.value and "blocks of 16" in lab._notice.value
    lab._card.value = "T4"
    assert "No room" in lab._notice.value
    lab._card.value, lab._knobs["gpu_memory_utilization"].value = "L4", 0.99


def test_eight_runs_are_kept():
    lab = knobs(load=FEW[:2])
    for _ in range(8):
        lab.run(block_size=32)
    assert [run.number for run in lab.runs] == list(range(2, 10)) and lab.board.position == 8
    assert [run.column for run in lab.runs] == list(range(1, 9))
    with pytest.raises(PagedlabError, match="no run 1"):
        lab.choose(1)
    lab._button.click()
    assert lab.runs[-1].number == 10 and lab._bar.value == 2


def test_without_a_front_end_it_is_a_picture_and_a_page(lab, tmp_path):
    lab.choose(2)
    data = lab._repr_mimebundle_()
    data = data[0] if isinstance(data, tuple) else data
    root = ET.fromstring(data["image/svg+xml"])
    assert root.get("aria-label").startswith("Knobs. Run 2 on L4")
    assert float(root.get("height")) > layout.SIZE[1] + 400  # the board, and the memory map under it
    ET.fromstring(lab.svg("dark"))
    assert "run 3" in data["text/plain"] and "text/html" not in data
    page = lab.save_html(tmp_path / "knobs.html").read_text(encoding="utf-8")
    board = data_of(page)
    assert {m["position"] for m in [board["picture"], *board["recorded"]]} == {0, 1, 2, 3}
    texts = {mark[0]: mark[3] for mark in board["picture"]["set"] if mark[0] == "badge.text"}
    assert texts["badge.text"].startswith("recorded · CPU · fp32 · 20")
    assert page.count('type="application/json"') == 2 and lab.board.position == 2


def test_a_chart_compares_the_runs_kept(lab):
    chart = lab.chart("waste")
    assert [row[1] for row in chart.rows] == [run.measured["waste"] for run in lab.runs if run.ran]
    with pytest.raises(PagedlabError, match="no measure"):
        lab.chart("speed")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"card": "B300"}, "There is no card"),
        ({"model": "gpt"}, "There is no model"),
        ({"swap_space": 4}, "no knob of this lab"),
        ({"gpu_memory_utilization": 1.2}, "share of the card"),
        ({"block_size": 0}, "block_size"),
        ({"fraction": 0}, "fraction"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(PagedlabError, match=message):
        knobs(**wrong)


@pytest.mark.parametrize("share", [0.3, 0.001, 0.925, 0.999])
def test_the_controls_say_what_ran_also_for_a_share_that_the_slider_did_not_have(share):
    for lab in (knobs(load=FEW[:1], gpu_memory_utilization=share), knobs(load=FEW[:1])):
        run = lab.run(gpu_memory_utilization=share)
        assert lab.settings == run.knobs and run.knobs["gpu_memory_utilization"] == share
        assert run.plan.summary.split(":")[0] in lab._notice.value and lab.run(block_size=8).knobs["block_size"] == 8
        assert lab.settings["gpu_memory_utilization"] == share


@pytest.mark.parametrize("load", [[], 5, [None], [("a",)], [("a", "b")], [(1, 2)], [("a", 0)], [("a", 1.5)], [("", 3)]],
                         ids=repr)  # fmt: skip
def test_a_load_that_cannot_be_served_is_refused_and_not_called_too_large(load):
    with pytest.raises(PagedlabError, match=r"\bload\b"):
        knobs(load=load)


def test_what_is_of_a_wrong_type_is_refused(lab):
    for wrong in ({"card": []}, {"card": ""}, {"model": {}}, {"model": ""}, {"enable_prefix_caching": "no"},
                  {"gpu_memory_utilization": True}):  # fmt: skip
        with pytest.raises(PagedlabError):
            lab.run(**wrong)
    for call in (lab.choose, lab.chart):
        with pytest.raises(PagedlabError):
            call([])
    for held in (3, "x", True):
        with pytest.raises(PagedlabError, match="held is"):
            plan_card("L4", held=held)
    for value in (None, "x", -1, True, float("nan"), float("inf")):
        with pytest.raises(PagedlabError, match="others is"):
            Held(others=value)
    full = plan_card("L4", held=Held(others=30))
    assert full.free_at_start == 0 and "0.0 GiB are free" in full.summary


def test_every_sum_on_the_board_comes_out_as_it_is_written(lab):
    """A reader can check each line: no figure is one block short, or off by a rounding."""
    import re

    plain = lambda text: [float(n) for n in re.findall(r"\d+(?:\.\d+)?", text.replace(",", ""))]  # noqa: E731
    for share in (0.5, 0.85, 0.9, 0.92, 0.97):
        for model in ("Llama-3.2-1B", "Llama-3.1-8B"):
            for size in (4, 16, 64):
                plan = plan_card("L4", model, gpu_memory_utilization=share, block_size=size)
                if plan.outcome == "fits":
                    left, right = layout._sums(KnobRun(1, plan, 32))[0].split(" = ", 1)
                    u, card, weights, activations, rest = plain(left)
                    gib, blocks, usable, slots, tokens = plain(right.replace("#0", ""))
                    assert u * card - weights - activations - rest == pytest.approx(gib, abs=0.021)
                    assert usable == blocks - 1 and slots == size and usable * slots == tokens == plan.num_tokens
    for run in lab.runs[:2]:
        lab.choose(run.number)
        marks = picture(lab.board.marks())
        for quotient, whole_, divisor in re.findall(
            r"(\d+)\D+\((\d+) ÷ (\d+)\)", marks["scale.parts"].text.replace(",", "")
        ):
            assert int(quotient) == int(whole_) // int(divisor)
        assert "one is the null block" in marks["scale.parts"].text and not marks["scale.parts"].text.endswith("…")
        needed, *parts, computed = plain(marks["under.computed"].text)
        assert needed == sum(len(lab._base.tokenizer.encode(prompt)) + n - 1 for prompt, n in lab.load)
        m = run.measured
        assert m["needed"] == needed and m["needed"] - m["found"] + m["again"] == m["computed"] == computed
        assert parts == [m[name] for name in ("found", "again") if m[name]]


def test_the_map_says_why_it_opens_where_it_does_and_tells_the_event_first():
    lab = knobs(gpu_memory_utilization=0.95)  # at 0.92 an L4 is too full already
    lab.run(enable_prefix_caching=False, gpu_memory_utilization=0.95)
    assert [bool(run.measured["preemptions"]) for run in lab.runs[:2]] == [False, True]
    for run, why in zip(lab.runs[:2], ("no other holds more blocks", "the first preemption"), strict=True):
        lab.choose(run.number)
        assert run.why == why and lab.map.words()["verdict"] == f"Step {run.opening}: {why}."
        text = picture(lab.board.marks())["under.what"].text
        assert text == f"the memory of run {run.number}, opened at step {run.opening} of {run.steps}: {why}"
    assert picture(lab.map.marks())["story"].text.startswith("No free block was left: ")
    lab.map.forward()
    assert lab.map.words()["verdict"] == ""
    lab.map.back()
    trace, held = lab.runs[0].llm.trace, []
    for step in range(1, lab.runs[0].steps + 1):  # when its tokens are written and nobody has left
        first = next(i for i, e in enumerate(trace.events) if isinstance(e, ev.StepStarted) and e.step == step)
        stop = next(i for i in range(first, len(trace.events)) if isinstance(trace.events[i], ev.TokenSampled))
        state = replay(trace, stop)
        held.append(len({b for r in state.running for b in state.tables[r]}))
    assert held.index(max(held)) + 1 == lab.runs[0].opening


def test_the_board_says_which_run_the_others_are_compared_with(lab):
    marks = picture(lab.board.strip().marks)
    assert marks["beside"].text == "what differs from run 1" and marks["run.2.what"].text == "cache off"
    assert [marks[f"row.{i}.better"].text[0] for i in range(5)] == ["↑", "↓", "↓", "↓", "↓"]
