"""Several threads read source at once, while the garbage collector lets others run in the midst of it."""

import ast
import gc
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pagedlab.grading.parsing import parse

SOURCE = "\n".join(f"a{i} = [b for b in range({i}) if (b + {i}) * 2 > [1, {i}][0]]" for i in range(60))


class Garbage:
    """Rubbish in a ring, whose end gives way to another thread."""

    def __init__(self):
        self.ring = self

    def __del__(self):
        time.sleep(1e-5)


def refused(read) -> int:
    """How many of 60 readings, by four threads, end in an error."""

    def one(_):
        for _ in range(5):
            Garbage()
        try:
            read(SOURCE)
        except SystemError:
            return 1
        return 0

    before = gc.get_threshold()
    gc.set_threshold(20)
    try:
        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(one, range(60)))
    finally:
        gc.set_threshold(*before)


def test_no_thread_disturbs_another():
    assert refused(parse) == 0


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this system's Python has no such fault")
def test_the_fault_is_real_and_this_test_sees_it():
    assert any(refused(ast.parse) for _ in range(10))


def test_what_is_no_python_is_a_syntax_error():
    with pytest.raises(SyntaxError):
        parse("def (")
