"""What is stored in the notebooks of the course; that they run is nbval's business (`make test`)."""

from __future__ import annotations

import importlib.util
import inspect
import json
import pydoc
import re
from pathlib import Path

import nbformat
import pytest

from pagedlab import viz
from pagedlab.grading.make_exercises import colab_source
from pagedlab.grading.part import EXERCISES, load_exercise
from pagedlab.viz.lesson import show_source, show_wgsl

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("notebooks", "exercises", "solutions")
NOTEBOOKS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.ipynb"))
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MACHINE_PATH = re.compile(r"/(?:home|Users|root|work|tmp)/[\w.-]+|site-packages")


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def markdown(path: Path) -> str:
    return "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")


def pytest_generate_tests(metafunc):
    if "notebook" in metafunc.fixturenames:
        metafunc.parametrize("notebook", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
    if "chapter" in metafunc.fixturenames:
        metafunc.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)


def tool(name: str):
    """A script of tools/, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


routes = tool("routes")


def test_chapters_are_numbered_and_each_but_the_first_has_the_exercise_that_the_grader_knows():
    names = {folder: [path.stem for path in NOTEBOOKS if path.parent.name == folder] for folder in FOLDERS}
    numbers = [name[:2] for name in names["notebooks"]]
    assert numbers[0] == "00" and sorted(set(numbers)) == numbers
    assert names["exercises"] == names["solutions"] == names["notebooks"][1:]
    assert names["exercises"] == [load_exercise(number).name for number in EXERCISES]


def test_a_notebook_is_valid_and_stores_no_widget_state_error_or_machine_path(notebook):
    content = read(notebook)
    nbformat.validate(content)
    assert "widgets" not in content.metadata
    assert content.metadata.kernelspec.name == "python3"
    for cell in content.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error", f"a stored error in: {cell.source[:80]}"
    assert not MACHINE_PATH.search(json.dumps(content.cells)), "a path of somebody's machine is stored"


def test_no_cell_has_a_character_that_nobody_typed(notebook):
    """A formula's ``\\rceil`` or ``\\frac`` that went through a string loses its first letters."""
    cells = read(notebook).cells
    assert {ch for cell in cells for ch in cell.source if ord(ch) < 32} <= {"\n"}


def test_no_cell_is_left_out_by_nbval_or_expected_to_fail(notebook):
    text = notebook.read_text(encoding="utf-8")
    for mark in ("NBVAL_SKIP", "nbval-skip", "NBVAL_RAISES_EXCEPTION", "raises-exception", "NBVAL_IGNORE_OUTPUT"):
        assert mark not in text, f"{notebook.name} holds {mark}"


def test_the_unit_of_a_chart_is_short_enough_for_the_height_along_which_it_stands(notebook):
    cells = [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    units = [unit for source in cells for unit in re.findall(r'\bunit="([^"]*)"', source)]
    assert [unit for unit in units if len(unit) > 46] == []


def test_links_inside_the_course_resolve(notebook):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", markdown(notebook)):
        if not re.match(r"https?://|mailto:", target):
            assert (notebook.parent / target).exists(), f"{notebook.name} links to {target}, which is not there"


def test_headings_nest_without_gaps_under_one_title(notebook):
    levels = [len(m) for m in re.findall(r"^(#+) ", markdown(notebook), flags=re.M)]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))


def test_a_chapter_keeps_its_cells_short_and_stores_every_output(chapter):
    for cell in read(chapter).cells:
        if cell.cell_type == "code" and "colab" not in cell.metadata.get("tags", []):
            assert len(cell.source.splitlines()) <= 25, f"a cell of over 25 lines: {cell.source[:80]}"
            assert cell.execution_count, f"not run before it was stored: {cell.source[:80]}"


@pytest.mark.parametrize("early", CHAPTERS[1:7], ids=lambda path: path.stem)
def test_a_chapters_code_and_what_it_prints_fit_into_a_page(early):
    for cell in read(early).cells:
        if cell.cell_type == "code" and "colab" not in cell.metadata.get("tags", []):
            printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
            wide = [line for line in (cell.source + "\n" + printed).splitlines() if len(line) > 96]
            assert not wide, f"JupyterLab breaks lines of over 96 columns inside words: {wide}"


def test_a_chapter_has_what_every_chapter_has(chapter):
    text = markdown(chapter)
    assert re.match(r"# \d\d · .+\?", text), "the title is a question"
    for part in (
        "After this chapter you can",
        "Time:",
        "## A real run",
        "## What vLLM does",
        "## Check yourself",
        "<details>",
    ):
        assert part in text, f"no {part!r}"
    code = "\n".join(cell.source for cell in read(chapter).cells if cell.cell_type == "code")
    assert any(f"{lab}(" in code for lab in viz.__all__), f"none of the labs: {', '.join(viz.__all__)}"
    for part in ("predictions.ask(", "predictions.summary()", "show_source(", "Chart(", "badge("):
        assert part in code, f"no {part!r}"


def test_a_chapter_stores_a_picture_of_its_lab(chapter):
    outputs = [output for cell in read(chapter).cells for output in cell.get("outputs", ())]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)


def test_a_chapter_can_be_set_up_on_colab_by_its_folded_first_cell(chapter):
    cell = read(chapter).cells[1]
    assert cell.source == colab_source() and cell.metadata.jupyter.source_hidden and not cell.outputs


def test_the_devcontainer_sets_up_what_make_knows():
    config = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    command, target = config["postCreateCommand"].split()
    assert command == "make" and re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.M)
    assert "chromium" in (ROOT / ".devcontainer" / config["build"]["dockerfile"]).read_text()


def test_a_chapters_outputs_were_made_by_the_code_above_them(chapter):
    stored = read(chapter)
    now = read(chapter)
    tool("run_notebooks").stamp(now)
    for was, is_now in zip(stored.cells, now.cells, strict=True):
        assert was.metadata.get("made_by") == is_now.metadata.get("made_by"), (
            f"changed since it was run: {was.source[:80]!r}; run tools/run_notebooks.py notebooks/{chapter.name}"
        )


def test_the_source_that_a_chapter_shows_is_todays(chapter):
    shown = 0
    for cell in read(chapter).cells:
        outputs = cell.get("outputs", [])
        for name, code in zip(outputs, outputs[1:], strict=False):
            found = re.fullmatch(r"`(pagedlab[\w.]+)`", "".join(name.get("data", {}).get("text/markdown", "")))
            if found:
                try:
                    thing = pydoc.locate(found[1])
                except pydoc.ErrorDuringImport:  # a kernel where there is no Triton: its source is read by name
                    thing = None
                by_name = not (inspect.isfunction(thing) or inspect.isclass(thing))  # a Triton kernel, a private name
                assert (
                    "".join(code.data["text/plain"]).strip() == str(code_of(found[1] if by_name else thing)).strip()
                ), f"{found[1]} has changed; run tools/run_notebooks.py notebooks/{chapter.name}"
                shown += 1
    assert shown, "no source is shown"


def test_the_wgsl_that_a_chapter_shows_is_todays():
    shown = set()
    for cell in read(ROOT / "notebooks" / "05_inside_the_kernel.ipynb").cells:
        if name := re.search(r'show_wgsl\("(\w+)"', cell.source):
            (output,) = cell.outputs
            assert output.data["text/plain"] == repr(show_wgsl(name[1])), f"{name[1]} has changed; run it again"
            shown.add(name[1])
    assert shown == {path.stem for path in (ROOT / "kernels" / "wgsl").glob("ladder*.wgsl")}


def code_of(thing) -> str:
    return show_source(thing).data


def test_a_chapter_says_what_comes_next_on_each_route(chapter):
    last = read(chapter).cells[-1].source
    assert last == routes.mark(int(chapter.name[:2])), "run tools/routes.py"


def test_the_routes_are_the_same_everywhere():
    first = markdown(CHAPTERS[0])
    for route, stops in list(routes.ROUTES.items())[:2]:
        for text in (first, (ROOT / "README.md").read_text()):
            line = re.search(rf"^\| {route} \|(.*)\|$", text, flags=re.M)
            assert line and [int(n) for n in re.findall(r"\d\d", line[1])] == list(stops)


@pytest.mark.parametrize("page", sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]))
def test_links_and_pictures_of_a_page_resolve(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if not re.match(r"https?://", target):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_the_map_has_every_chapter_exercise_and_item():
    text = (ROOT / "docs" / "map.md").read_text()
    for path in NOTEBOOKS:
        if path.parent.name in ("notebooks", "exercises"):
            assert f"../{path.parent.name}/{path.name}" in text
    items = re.findall(r"^\| (\d+) \|", text.partition("## From the self-check list")[2], flags=re.M)
    assert [int(item) for item in items] == [*range(1, 13)]


def test_every_word_of_the_glossary_is_used_in_the_chapter_that_it_names():
    for line in re.findall(r"^\| (.+?) \| .+ \| (\[.+) \|$", (ROOT / "docs" / "glossary.md").read_text(), flags=re.M):
        word = re.sub(r"[`*]| \(.*", "", line[0]).lower()
        for target in re.findall(r"\(\.\./(notebooks/[^)]+)\)", line[1]):
            text = json.dumps(read(ROOT / target).cells, ensure_ascii=False).lower().replace("\\n", " ")
            assert word in text, f"{word!r} is not in {target}"
