"""What a chapter shows of the package is the package's source, indentation and all."""

import ast

from pagedlab.kv import BlockTable
from pagedlab.kv.contiguous import next_power_of_two
from pagedlab.viz.lesson import show_source


def test_a_method_and_a_function_are_shown_as_code_that_python_can_read(capsys):
    for thing in (BlockTable.slot_mapping, next_power_of_two, BlockTable):
        shown = show_source(thing)
        assert ast.parse(shown.data).body[0].name == thing.__name__
