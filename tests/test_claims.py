"""Each claim of a chapter about vLLM or the paper names its source, and the source has what is named.

The rows are in ``docs/claims/NN.csv``, the names that the releases have in ``docs/claims/<release>.json``.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "claims"
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SECTIONS = {1: 0, 2: 3, 3: 1, 4: 6, 5: 2, 6: 5, 7: 3, 8: 0, 9: 0, 10: 0}  # of the paper, each with its subsections
FIGURES = 19
FILE = re.compile(r"`([\w./]*\w\.(?:py|cu|cuh|h)|(?:\w+/)+)`")


def tool():
    """``tools/vllm_names.py``, as a module."""
    spec = importlib.util.spec_from_file_location("vllm_names", ROOT / "tools" / "vllm_names.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


vllm_names = tool()
CLAIMS = vllm_names.claims()
NAMES = {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("vllm-*.json")}


def markdown(chapter: Path) -> str:
    cells = nbformat.read(chapter, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def what_vllm_does(text: str) -> str:
    """A chapter's section of that name, with its subsections."""
    return re.split(r"^## ", text.partition("## What vLLM does")[2], flags=re.M)[0]


def is_or_holds(named: str, path: str) -> bool:
    """Whether ``core/block_pool.py``, or the folder ``vllm/v1/``, means ``path`` or where it lies."""
    return f"/{path}".endswith(f"/{named}") or named.endswith("/") and path.startswith(named)


def in_paper(place: str) -> bool:
    """Whether the paper has the section, figure or table ``place``."""
    kind, _, number = place.partition(" ")
    if kind == "section":
        section, _, part = number.partition(".")
        return int(section) in SECTIONS and (not part or 1 <= int(part) <= SECTIONS[int(section)])
    return place in ("abstract", "table 1", "algorithm 1") or kind == "figure" and 1 <= int(number) <= FIGURES


def is_known(row: dict[str, str]) -> bool:
    """Whether the source of a claim has what the claim names."""
    if row["source"] == "paper":
        return in_paper(row["path"]) and not row["name"]
    there = NAMES.get(row["source"], {}).get(row["path"])
    return there is not None and (not row["name"] or row["name"] in there)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapters_claims_stand_in_it_and_their_sources_have_what_they_name(chapter):
    rows = [row for row in CLAIMS if row["chapter"] == chapter.name[:2]]
    text = " ".join(markdown(chapter).split())
    assert rows, f"docs/claims/{chapter.name[:2]}.csv holds no claim"
    for row in rows:
        assert 3 <= len(row["quote"].split()) <= 12, f"3 to 12 words are wanted: {row['quote']!r}"
        assert " ".join(row["quote"].split()) in text, f"not in the chapter: {row['quote']!r}"
        assert is_known(row), f"unknown: {row['source']} {row['path']} {row['name']} (tools/vllm_names.py lists them)"


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_every_file_of_what_vllm_does_has_a_claim(chapter):
    cited = [row["path"] for row in CLAIMS if row["chapter"] == chapter.name[:2]]
    named = set(FILE.findall(what_vllm_does(markdown(chapter))))
    ours = {one for one in named if list(ROOT.glob(f"pagedlab/**/{one.removeprefix('pagedlab/')}"))}
    without = {one for one in named - ours if not any(is_or_holds(one, path) for path in cited)}
    assert not without, f"no row of docs/claims/{chapter.name[:2]}.csv cites {', '.join(sorted(without))}"


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_every_method_of_what_vllm_does_is_in_a_cited_file(chapter):
    there = {name for row in CLAIMS for name in NAMES.get(row["source"], {}).get(row["path"], ())}
    named = set(re.findall(r"`((?:[A-Z]\w+\.)+\w+)`", what_vllm_does(markdown(chapter))))
    assert named <= there, f"in no file that a claim cites: {', '.join(sorted(named - there))}"


def test_no_list_names_a_file_that_nobody_cites():
    cited = {(row["source"], row["path"]) for row in CLAIMS}
    assert {(source, path) for source, files in NAMES.items() for path in files} <= cited


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("vllm/v1/core/block_pool.py", "BlockPool.cow_block_if_not_appendable"),
        ("vllm/v1/core/blocks.py", ""),
        ("vllm/v1/core/block_pool.py", "free_blocks"),  # a method goes by its class
    ],
)
def test_a_name_or_a_file_that_is_not_there_is_found_out(path, name):
    assert is_known({"source": "vllm-0.32.0", "path": "vllm/v1/core/block_pool.py", "name": "BlockPool.free_blocks"})
    assert not is_known({"source": "vllm-0.32.0", "path": path, "name": name})


@pytest.mark.parametrize("place", ["section 4.7", "section 11", "figure 20", "table 2", "chapter 1"])
def test_a_place_that_the_paper_does_not_have_is_found_out(place):
    assert in_paper("section 4.5") and in_paper("section 10") and in_paper("figure 2")
    assert not in_paper(place)


def test_the_tool_finds_what_a_file_defines(tmp_path):
    file = tmp_path / "some.py"
    file.write_text(
        "LIMIT = 3\nif LIMIT:\n    first, second = 1, 2\n\n\nclass Pool:\n    size: int = 0\n\n    def take(self, n):\n"
        "        other.size = n\n        self.left, self.right = n, 1\n        inner = 2\n\n\nasync def run(): ...\n"
    )
    wanted = ["LIMIT", "Pool", "Pool.left", "Pool.right", "Pool.size", "Pool.take", "first", "run", "second"]
    assert vllm_names.names_in(file) == wanted
    assert vllm_names.names_in(tmp_path) == ["some.py"]
