"""The page that sums the course up: its picture is a run's, and what it says of the picture is so."""

import importlib.util
import re
from pathlib import Path

import pytest

from pagedlab import LLM

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "one-page.md").read_text()


def tool():
    spec = importlib.util.spec_from_file_location("one_page", ROOT / "tools" / "one_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lab():
    return tool().run()


def test_the_picture_is_the_one_of_the_run(lab):
    assert tool().PICTURE.read_text() == lab.svg(), "run tools/one_page.py"
    assert "](one-page.svg)" in PAGE
    assert re.findall("^#.*", PAGE, flags=re.M) == [PAGE.partition("\n")[0]], "no line may begin with #7"


def test_what_the_page_says_of_the_picture_is_so(lab):
    state = lab.driver.state()
    assert f"B's table is {state.tables['B']}" in PAGE
    (shared,) = set(state.tables["A"]) & set(state.tables["B"])
    assert f"Block #{shared} holds the words with which A begins" in PAGE and state.ref_cnt[shared] == 2
    last = state.tables["B"][-1]
    assert f"Block #{last} has one slot left" in PAGE and state.slots[last].count(None) == 1
    kept = [block for block in state.free if state.slots[block][0] and state.slots[block][0].request_id == "C"]
    assert state.requests["C"].status == "finished" and 1 in kept and 1 in state.cached
    assert re.search(rf"next\sblock that anybody gets is #{state.free[0]}\.", PAGE)


def test_the_bytes_of_a_token_are_the_models(lab):
    pool = LLM("smollm2", device="cpu", num_gpu_blocks_override=2).kv_pool
    assert f"SmolLM2-135M in fp32: {pool.bytes_per_token:,} bytes for each token" in PAGE


def test_the_page_names_every_chapter_once_or_more():
    for chapter in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"({'../notebooks/' + chapter.name})" in PAGE
