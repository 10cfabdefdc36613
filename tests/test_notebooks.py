"""What is stored in the notebooks of the course; that they run is nbval's business (`make test`)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest

from pagedlab import viz

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted(
    path for folder in ("notebooks", "exercises", "solutions") for path in (ROOT / folder).glob("*.ipynb")
)
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


def test_the_course_has_its_first_chapters_and_exercise():
    names = {f"{path.parent.name}/{path.name}" for path in NOTEBOOKS}
    assert {"notebooks/00_start_here.ipynb", "notebooks/03_block_table.ipynb", "exercises/03_block_table.ipynb",
            "solutions/03_block_table.ipynb"} <= names  # fmt: skip


def test_a_notebook_is_valid_and_stores_no_widget_state_error_or_machine_path(notebook):
    content = read(notebook)
    nbformat.validate(content)
    assert "widgets" not in content.metadata
    assert content.metadata.kernelspec.name == "python3"
    for cell in content.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error", f"a stored error in: {cell.source[:80]}"
    assert not MACHINE_PATH.search(json.dumps(content.cells)), "a path of somebody's machine is stored"


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
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) <= 25, f"a cell of over 25 lines: {cell.source[:80]}"
            assert cell.execution_count, f"not run before it was stored: {cell.source[:80]}"


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


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_of_the_front_pages_resolve(name):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", (ROOT / name).read_text()):
        if not re.match(r"https?://", target):
            assert (ROOT / target).exists(), f"{name} links to {target}, which is not there"
