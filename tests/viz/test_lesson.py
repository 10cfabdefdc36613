"""Small things that every chapter uses."""

import ast
import re

import nbformat
import pytest
from chapters import CHAPTERS, NOTEBOOKS

from pagedlab.errors import PagedlabError
from pagedlab.kv import BlockTable
from pagedlab.viz.lesson import SCROLLS, show_source


def shown(thing):
    return show_source(thing).data


def test_a_thing_is_shown_as_it_stands_in_its_file():
    assert shown(BlockTable.slot_mapping).startswith("def slot_mapping(self")
    for thing in (BlockTable.slot_mapping, BlockTable, show_source):  # as Python reads it: indentation and all
        assert ast.parse(shown(thing)).body[0].name == thing.__name__


def test_a_name_is_shown_without_importing_its_module():
    text = shown("pagedlab.kernels.ladder1_copy.copy_kernel")
    assert text.startswith("@triton.jit\ndef copy_kernel(") and text.endswith("mask=inside)")
    assert shown("pagedlab.kv.block_table.BlockTable").startswith("class BlockTable")


@pytest.mark.parametrize("name", ["copy_kernel", "pagedlab.kernels.nothing.x", "pagedlab.kernels.ladder1_copy.nothing"])
def test_a_name_that_is_not_there_is_said_to_be_missing(name):
    with pytest.raises(PagedlabError, match="no "):
        show_source(name)


def test_long_lines_of_shown_source_can_be_scrolled_to_in_every_page_that_keeps_styles():
    assert f'<pre style="{SCROLLS}">' in show_source(BlockTable)._repr_html_()
    assert SCROLLS == "white-space: pre; overflow-x: auto"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_chapters_show_source_in_this_one_way_and_fence_only_short_lines(chapter):
    for cell in nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", 4).cells:
        if cell.cell_type == "markdown":
            fenced = re.findall(r"^```.*?^```", cell.source, re.DOTALL | re.MULTILINE)
            assert all(len(line) <= 96 for block in fenced for line in block.splitlines())
        else:
            other = r"\bgetsource|\bCode\(|^\S+\?\?$|^%(psource|pycat|load)\b"
            assert not re.search(other, cell.source, re.MULTILINE)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_source_that_is_stored_in_a_chapter_can_be_scrolled_as_it_is_opened(chapter):
    cells = nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", 4).cells
    pages = [output.get("data", {}).get("text/html", "") for cell in cells for output in cell.get("outputs", [])]
    shown = [page for page in pages if '<div class="highlight">' in page]
    assert shown and all(f'<pre style="{SCROLLS}">' in page for page in shown), f"{chapter}: run it again"
