"""The page that steps through a run without a kernel."""

import re

import pytest
from front_end import FrontEnd, data_of
from runs import crowded, recorded_run

from pagedlab.errors import PagedlabError
from pagedlab.trace import load, save
from pagedlab.viz.memory.lab import memory_map


def test_the_page_holds_every_step_for_every_request_and_fetches_nothing(tmp_path):
    lab = memory_map(crowded(), step=4)
    page = lab.save_html(tmp_path / "run.html").read_text(encoding="utf-8")
    data = data_of(page)
    assert data["picture"]["position"] == 4 and lab.position == 4
    seen = {(m["position"], m["selected"]) for m in [data["picture"], *data["recorded"]]}
    assert seen == {(k, r) for k in range(lab.num_steps + 1) for r in "ABCD"}
    assert not re.search(r"""(src|href)=|@import|https?://(?!www\.w3\.org/2000/svg)""", page)
    # What is in it adds up to the pictures that Python would draw.
    end = FrontEnd.__new__(FrontEnd)
    end.lab, end.sizes, end.errors, end.pictures, end.strip = lab, [], [], {}, {}
    for message in [data["picture"], *data["recorded"]]:
        end.receive(message)
        lab.select(message["selected"]) if lab.selected != message["selected"] else None
        lab.seek(message["position"])
        end.check()


def test_tokens_cannot_break_out_of_the_page(tmp_path):
    words = ["</script><script>alert(1)</script>", "<!--", "&", "\ud800", "\x00"]
    page = memory_map(recorded_run([list(range(9))], words=words)).save_html(tmp_path / "x.html").read_text("utf-8")
    assert page.count("</script>") == 2 and data_of(page)


def test_a_page_that_cannot_be_written_says_so(tmp_path):
    with pytest.raises(PagedlabError, match="could not be written"):
        memory_map(crowded()).save_html(tmp_path / "no-such-folder" / "run.html")


@pytest.mark.parametrize("path", [5, None, b"x.html", ["x.html"]], ids=repr)
def test_what_is_no_path_is_refused(path):
    lab = memory_map(crowded())
    for write in (lab.save_html, lambda path: save(lab.trace, path), load):
        with pytest.raises(PagedlabError, match="is no path"):
            write(path)


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    with pytest.raises(PagedlabError, match="could not be written"):
        memory_map(crowded()).save_html(f"{tmp_path}/a\0b.html")
