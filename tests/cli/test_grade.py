"""`pagedlab grade`, as a person meets it."""

import json

import pytest

EXERCISE = "exercises/03_block_table.ipynb"


def test_one_line_for_each_check_then_the_points_the_time_and_when_the_file_was_saved(run, root, tmp_path):
    files = {"--json": tmp_path / "x.json", "--junit": tmp_path / "x.xml"}
    done = run("grade", root / EXERCISE, *[word for pair in files.items() for word in pair], "--min-score", "60")
    assert (done.status, done.err) == (1, "")
    lines = done.out.splitlines()
    assert "saved 20" in lines[0] and lines[1].startswith("  ✗ 03.1  0 of 3")
    assert "0 of 10 points, graded in" in lines[-1]
    (data,) = json.loads(files["--json"].read_text())
    assert (data["points"], data["earned"], data["checks"][0]["name"]) == (10, 0, "03.1")
    assert "<testsuite " in files["--junit"].read_text()


def test_at_a_terminal_it_says_what_it_is_doing(run_in_terminal, root):
    done = run_in_terminal("grade", root / EXERCISE)
    assert "asking part 03.1" in done.out and "asking part 03.4" in done.out and "of 5, 00:" in done.out


@pytest.mark.parametrize("arguments, word", [
    (["--seed", "-1"], "seed is -1"), (["--jobs", "0"], "jobs is 0"), (["--junit", "no/x.xml"], "no/x.xml"),
    (["--out", "file/x"], "file/x"),
])
def test_options_that_cannot_be_are_refused_with_a_sentence(run, root, tmp_path, monkeypatch, arguments, word):
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    done = run("grade", root / EXERCISE, *arguments)
    assert done.status == 2 and word in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("arguments, word", [
    (["a.ipynb", "--json", "a.ipynb"], "written over"), (["a.ipynb", "--junit", "./link.ipynb"], "written over"),
    ([".", "--json", "a.ipynb"], "written over"), (["a.ipynb", "--json", "x", "--junit", "./x"], "both results"),
    (["a.ipynb", "--json", "loop"], "could not be written"),
])
def test_no_result_is_written_over_a_notebook_or_the_other(run, root, tmp_path, monkeypatch, arguments, word):
    monkeypatch.chdir(tmp_path)
    before = (root / EXERCISE).read_bytes()
    (tmp_path / "a.ipynb").write_bytes(before)
    (tmp_path / "link.ipynb").symlink_to("a.ipynb")
    (tmp_path / "loop").symlink_to("loop")
    done = run("grade", *arguments)
    assert done.status == 2 and word in done.err and done.err.count("\n") == 1
    assert (tmp_path / "a.ipynb").read_bytes() == before


def test_a_name_that_is_too_long_is_refused_with_a_sentence(run):
    done = run("grade", "x" * 300 + ".ipynb")
    assert done.status == 2 and "File name too long" in done.err and done.err.count("\n") == 1
