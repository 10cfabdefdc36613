"""Small things that every chapter uses."""

import ast

import pytest

from pagedlab.errors import PagedlabError
from pagedlab.kv import BlockTable
from pagedlab.viz.lesson import show_source


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
