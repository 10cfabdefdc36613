"""``docs/eviction.md``: its code runs, says what the page says, and its pool shows in the lab as it is."""

import contextlib
import io
import re
from pathlib import Path
from random import Random

import pytest

from pagedlab.engine import LLM, SamplingParams
from pagedlab.trace import replay
from pagedlab.trace.invariants import first_broken
from pagedlab.viz.kit.marks import picture
from pagedlab.viz.prefix.lab import prefix_hits

PAGE = (Path(__file__).parent.parent / "docs" / "eviction.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python|text)\n(.*?)^```$", PAGE, flags=re.M | re.S)


@pytest.fixture(scope="module")
def pool_class():
    names = {"__name__": "eviction_page"}
    exec(BLOCKS[0][1], names)
    return names["LFUPool"]


@pytest.mark.slow
def test_the_code_of_the_page_prints_what_the_page_says():
    names, printed = {"__name__": "eviction_page"}, ""
    assert [kind for kind, _ in BLOCKS] == ["python", "python", "text", "python", "text"]
    for kind, text in BLOCKS:
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(text, names)
            printed = out.getvalue()
        else:
            assert printed == text


def test_the_lab_steps_through_the_pools_own_order(pool_class):
    """Four askers who share a beginning, two of whom are asked again and again, in a pool where others are evicted."""
    llm = LLM("tiny-random", block_size=4, num_gpu_blocks_override=20, record=True, block_pool=pool_class)
    draw, queues, pool = Random(1), [], llm.block_pool._pool
    for i in range(24):
        who = draw.choice(["a cook. ", "a cook. ", "a judge. ", f"number {i}. "])
        question = draw.choice(["Why?", "What now?"])
        llm.add_request(f"You are {who}{question}", SamplingParams(max_tokens=3, ignore_eos=True))
        while llm.has_unfinished_requests():
            llm.step()
            queue = [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]
            assert queue == sorted(queue, key=lambda b: pool.worth(pool.blocks[b])), "least often found first"
            queues.append(queue)
    lab = prefix_hits(llm, "You are a cook. Why?").lab
    reordered = 0
    for step, queue in enumerate(queues, start=1):
        lab.seek(step)
        assert lab.state.free == queue
        marks = picture(lab.marks())
        shown = sorted((m.place[0], m.text) for m in marks.values() if re.fullmatch(r"queue\.\d+\.n", m.id))
        assert [text.strip("#◆") for _, text in shown] == [str(b) for b in queue[:11]]
        reordered += "in an order of its own" in marks["story"].tip
        assert ("own order" in marks["queue.what"].text) == lab.state.has_own_order
    assert reordered == len({e_step for e_step, e in steps(llm.trace) if e.kind == "free_queue_reordered"}) > 4
    assert replay(llm.trace).counts["block_evicted"] > 10
    assert first_broken(llm.trace) is None


def steps(trace):
    """Each event with the step that it belongs to."""
    step = 1
    for event in trace.events:
        yield step, event
        step += event.kind == "step_ended"
