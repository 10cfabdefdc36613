"""Exercise 05.3 in WGSL: what is wrong loses its points, for what is wrong; what cannot be run is told the line."""

import random
import re
import sys
import threading

import nbformat
import pytest
from submissions import MUTANTS, ROOT, answers_of, in_wgsl, loses, mutants_in, solution

from pagedlab.errors import PagedlabError
from pagedlab.grading.exercises.ex05.kernel import KERNEL
from pagedlab.grading.grade import grade
from pagedlab.grading.part import ask_here, examine
from pagedlab.grading.tasks.ex05 import wgsl
from pagedlab.kernels import webgpu

FILES = mutants_in(MUTANTS / "05" / "wgsl")
IN_WGSL = in_wgsl(solution("05.3"))

pytestmark = pytest.mark.skipif(
    not webgpu(), reason="no WebGPU adapter here; install one (Debian, Ubuntu: apt-get install mesa-vulkan-drivers)"
)


def texts(cell):
    """The two texts of a cell's."""
    return dict(re.findall(r'^ *(\w+_kernel) = """(.*?)"""', cell, flags=re.MULTILINE | re.DOTALL))


def few():
    """A case of each kind with one head size and one block size: what takes long is to compile for each size anew."""
    drawn = [case for seed in range(9) for case in KERNEL.cases(random.Random(seed), 0)]
    small = [case for case in drawn if case["head_size"] == 16 and case.get("block_size", 4) == 4]
    return list({(case["kernel"], case["kind"], case["splits"], case.get("loud")): case for case in small}.values())


CASES = few()


def judged(cell, cases=CASES):
    objects = texts(cell)
    return examine(KERNEL, cases, [ask_here(KERNEL, objects, case) for case in cases])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_answer_loses_its_points_for_what_is_wrong_in_it(file):
    found = judged(answers_of(file)["05.3"])
    blamed = re.search(r"^# blamed 05.3: (.*)$", file.read_text(), flags=re.MULTILINE)
    assert (found.passed, found.property) == (not loses(file), blamed[1] if blamed else ""), found


def test_the_solution_is_right_and_the_cell_as_shipped_is_no_answer():
    assert judged(IN_WGSL).passed
    assert len([file for file in FILES if loses(file)]) >= 8 and len(FILES) >= 11
    shipped = re.sub("( *)let first = .*", r"\1# YOUR CODE HERE\n\1raise NotImplementedError()", IN_WGSL)
    assert shipped != IN_WGSL and not judged(shipped, CASES[:1]).answered


@pytest.mark.parametrize("was, now, message", [
    ("let first = split", "let first = spilt", "line 12, `let first = spilt * BLOCKS_A_SPLIT;`: no definition"),
    ("largest[result] = m", "key[result] = m", "line 32, `key[result] = m;`: "),
    ("fn split_kernel", "fn mine", "Unable to find entry point 'split_kernel'"),
    ("@workgroup_size(HEAD_SIZE)", "@workgroup_size(4096)", "split_kernel does not compile"),
])  # fmt: skip
def test_what_does_not_compile_is_told_its_line_in_a_sentence(was, now, message):
    found = judged(IN_WGSL.replace(was, now, 1), CASES[:1])
    assert not found.passed and message in found.example and "\n" not in found.example


def test_a_loop_without_an_end_loses_the_points():
    """Mesa's adapter ends any loop after 65,535 rounds; a GPU's driver ends the kernel; and see below."""
    found = judged(IN_WGSL.replace("let first", "while (m < 1.0) { l += 1.0; }\n    let first", 1), CASES[:1])
    assert found.answered and not found.passed


def test_a_kernel_that_does_not_end_is_given_up(monkeypatch):
    monkeypatch.setattr(wgsl, "SECONDS", 0.1)
    monkeypatch.setattr(wgsl, "_hanging", [])
    ends = threading.Event()
    with pytest.raises(PagedlabError, match="merge_kernel has not ended after 0 seconds. Does one of its loops"):
        wgsl._within_seconds("merge_kernel", ends.wait)
    assert "has not ended, and nothing else can be started" in judged(IN_WGSL, CASES[:1]).example
    ends.set()
    wgsl._hanging[0].join()
    monkeypatch.setattr(wgsl, "SECONDS", 60.0)
    assert judged(IN_WGSL, CASES[:1]).passed


@pytest.mark.slow
def test_without_triton_all_points_of_exercise_05_are_to_be_had(tmp_path, monkeypatch):
    """By the whole grading, as a Mac's: what is jailed is, and finds its device there."""
    no_triton = "import sys; sys.modules['triton'] = None\n"
    nb = nbformat.read(ROOT / "solutions" / "05_inside_the_kernel.ipynb", as_version=4)
    for cell in nb.cells:
        cell.source = in_wgsl(cell.source)
        if "load_triton()" in cell.source:
            cell.source = no_triton + cell.source
    path = tmp_path / "05_inside_the_kernel.ipynb"
    nbformat.write(nb, path)
    monkeypatch.setitem(sys.modules, "triton", None)
    result = grade(path)
    assert (result.earned, result.points) == (12, 12), result.checks
