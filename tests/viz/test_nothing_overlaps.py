"""In every lab, at every step: no word lies over another one, over the edge of a box, or beyond the picture. Measured
in Chromium, in the font that it takes."""

import pytest
from geometry import Pictures
from setups import EVERY, tiny

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def model():
    return tiny()


@pytest.mark.parametrize("which", EVERY)
def test_no_word_lies_over_another_or_over_an_edge(model, ruler, which):
    lab, pictures = EVERY[which](model), Pictures()
    for position in range(lab.num_steps + 1):
        lab.move(position)
        for selected in lab.selections()[:3]:
            lab.choose(selected)
            pictures.add(lab, which)
    assert len(pictures) > 1
    faults = pictures.faults(ruler)
    assert not faults, "\n".join([f"{len(faults)} faults:", *faults[:40]])


def test_what_overlaps_is_found(ruler):
    class Picture:
        SIZE, position, selected = (200.0, 100.0), 0, None

        def __init__(self, *marks):
            self.static_marks = lambda: marks

    from pagedlab.viz.kit.marks import Mark

    def faults(*marks):
        pictures = Pictures()
        pictures.add(Picture(*marks), "here")
        return pictures.faults(ruler)

    word, card = Mark("a", (20, 30), "text", "twelve blocks"), Mark("box", (10, 15, 120, 24), "card")
    assert not faults(word, card, Mark("b", (20, 60), "text", "twelve blocks"))
    assert "b" in faults(word, Mark("b", (60, 33), "text", "over it"))[0]
    assert "crosses the edge" in faults(word, card._replace(place=(10, 15, 40, 24)))[0]
    assert "leaves the picture" in faults(word._replace(place=(180, 30)))[0]
