"""A step sends under 20 KB in every lab, also one that fills or empties a large pool, and it adds up to the picture.

(The knobs lab's board, which is sent whole, is in test_knobs_lab.py.)
"""

import pytest
from front_end import FrontEnd
from setups import LARGE, tiny

MOST = 20_000


@pytest.fixture(scope="module")
def model():
    return tiny()


@pytest.mark.parametrize("which", LARGE)
def test_a_step_is_small_and_adds_up_to_the_picture_there_and_back(model, which):
    lab = LARGE[which](model)
    end = FrontEnd(lab)
    lab.seek(0)
    end.sizes.clear()
    for position in [*range(1, lab.num_steps + 1), *range(lab.num_steps - 1, -1, -1)]:
        end.show(position)
        assert end.pictures[end.at] == {m.id: m.to_json() for m in lab.marks()}
        strip = lab.strip()
        assert end.strip == {m.id: m.to_json() for m in (strip.marks if strip else [])}
    assert lab.num_steps > 4 and not end.errors
    assert max(end.sizes) < MOST, sorted(end.sizes)[-5:]
