"""Two runs stepped together: what is said, what is drawn, what the buttons do."""

import xml.etree.ElementTree as ET

import pytest

from pagedlab.errors import PagedlabError
from pagedlab.kv import KVCacheManager
from pagedlab.parity.side_by_side import golden, side_by_side
from pagedlab.viz.marks import picture
from pagedlab.viz.side_by_side import SIZE, SideBySideLab


class InOrder(KVCacheManager):
    def free(self, request):
        self.block_pool.free_blocks(self.req_to_blocks.pop(request.request_id))
        del self.num_cached_block[request.request_id]


@pytest.fixture(scope="module")
def same():
    return side_by_side(golden("sched-02"))


@pytest.fixture(scope="module")
def broken():
    return side_by_side(golden("sched-02"), kv_cache_manager=InOrder)


def dashed(lab):
    return [mark.id for mark in lab._marks() if mark.cls == "over guess"]


def test_every_step_is_a_valid_picture_inside_its_frame(same):
    lab = SideBySideLab(same)
    for step in range(1, lab.num_steps + 1):
        lab.seek(step)
        marks = picture(lab._marks())
        for mark in marks.values():
            if mark.cls.split()[0] in ("card", "cell", "over", "top"):
                x, y, w, h = mark.place
                assert x >= 0 and y >= 0 and x + w <= SIZE[0] and y + h <= SIZE[1], mark
        ET.fromstring(lab.svg("light")), ET.fromstring(lab.svg("dark"))
        assert not dashed(lab)


def test_what_is_drawn_is_what_the_step_says(same):
    lab = SideBySideLab(same, step=11)
    text = {mark.id: mark.text for mark in lab._marks()}
    step = same.theirs[10]
    for side in (0, 1):
        assert text[f"{side}.block.{step['free'][0]}.turn"] == "next"
        for request_id, table in step["tables"].items():
            assert any(text[f"{side}.block.{b}.who"].startswith(request_id) for b in table)
    assert "r7 preempted" in lab.text()


def test_a_difference_is_outlined_said_and_counted(broken):
    first = broken.different_steps[0] + 1
    lab = SideBySideLab(broken, step=first - 1)
    assert not dashed(lab) and "no difference" in lab.text()
    lab.seek(first)
    assert dashed(lab) and "not the same (free)" in lab.text()
    assert f"{len(broken.different_steps)} of 98 steps differ" in lab.text()


def test_buttons_and_slider_step_and_stop_at_the_ends(broken):
    lab = SideBySideLab(broken)
    back, forward, slider, jump = lab.children[1].children
    back.click()
    assert lab.step == 1
    forward.click()
    assert lab.step == 2 == slider.value
    jump.click()
    assert lab.step == broken.different_steps[0] + 1
    lab.seek(1000)
    forward.click()
    assert lab.step == lab.num_steps
    assert lab.children[0].value == lab.svg().encode()


def test_a_side_that_stopped_is_drawn_empty_and_says_why(same):
    import dataclasses

    stopped = dataclasses.replace(same, ours=same.ours[:5], error="RuntimeError: no")
    lab = SideBySideLab(stopped, step=6)
    ET.fromstring(lab.svg())
    assert "stopped: RuntimeError: no" in lab.text()


def test_without_a_front_end_it_is_a_picture(same):
    data = SideBySideLab(same)._repr_mimebundle_()
    assert ET.fromstring(data["image/svg+xml"]).get("aria-label").startswith("Two runs side by side, step 1.")
    assert "text/html" not in data
    assert "vLLM: scheduled" in data["text/plain"]


def test_a_step_that_is_not_recorded_is_refused(same):
    with pytest.raises(PagedlabError, match="recorded are 1 to 98"):
        SideBySideLab(same, step=99)
