"""CONTRIBUTING's recipe for a lab, followed to the letter: its code is written where it says, and opened."""

import ast
import re
import sys

import pytest
from front_end import FrontEnd
from geometry import Pictures
from runs import crowded

from pagedlab import viz
from pagedlab.errors import PagedlabError
from pagedlab.trace import TraceDriver, save


@pytest.fixture
def recipe(root):
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return re.split(r"\n###? ", text.split("\n### A lab\n")[1])[0]


@pytest.fixture
def holders(recipe, tmp_path, monkeypatch):
    """The function that opens the lab, as a chapter would import it."""
    code, line = re.findall(r"```python\n(.*?)```", recipe, re.DOTALL)
    for path in re.findall(r"`(pagedlab/viz/\w+/\w+\.py)`", recipe):
        file = tmp_path / path.removeprefix("pagedlab/viz/")
        file.parent.mkdir(exist_ok=True)
        file.write_text(code if file.name == "lab.py" else "", encoding="utf-8")
    monkeypatch.setattr(viz, "__path__", [*viz.__path__, str(tmp_path)])
    for name, module in ast.literal_eval(f"{{{line}}}").items():
        monkeypatch.setitem(viz._LABS, name, module)
    yield viz.holders
    for name in [name for name in sys.modules if name.startswith("pagedlab.viz.holding")]:
        del sys.modules[name]
    del viz.holding


def test_the_lab_is_at_most_sixty_lines_and_a_folder(recipe):
    code = re.search(r"```python\n(.*?)```", recipe, re.DOTALL)[1]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 60


def test_it_steps_and_each_bar_is_the_blocks_reference_count(holders):
    trace = crowded()
    lab, driver = holders(trace), TraceDriver(trace)
    end, seen = FrontEnd(lab), set()
    for position in [*range(lab.num_steps + 1), 3, 0]:
        end.show(position)
        driver.seek(position)
        counts, most = driver.state().ref_cnt, max(2, *driver.state().ref_cnt)
        marks = end.pictures[end.at]
        heights = [marks[f"block.{b}"][1][3] for b in range(len(counts))]
        assert heights == [pytest.approx(192 * count / most, abs=0.06) for count in counts]
        assert f"{sum(count > 1 for count in counts)} block" in marks["head.line"][3]
        seen |= {*counts}
    assert {0, 1, 2} <= seen and not end.errors  # free, held, shared
    assert len([id for id in end.strip if id != "time.track"]) == lab.num_steps


def test_it_is_a_picture_on_paper_and_a_page_without_a_kernel(holders, tmp_path):
    path = save(crowded(), tmp_path / "run.jsonl.gz")
    lab = holders(path)
    lab.seek(7)
    assert "step 7 of" in lab.svg() and lab.text().startswith("Holders, step 7. ")
    assert "Holders, step 7" in lab.save_html(tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(PagedlabError, match="A lab cannot show a int"):
        holders(7)


@pytest.mark.browser
def test_none_of_its_words_overlap(holders, ruler):
    lab, pictures = holders(crowded()), Pictures()
    for position in range(lab.num_steps + 1):
        lab.move(position)
        pictures.add(lab, "holders")
    assert len(pictures) > 5 and not pictures.faults(ruler)
