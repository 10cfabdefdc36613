"""The ways through the course, and the mark of each at the end of every chapter: ``python tools/routes.py``."""

from __future__ import annotations

import argparse
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
TAG = "route"  # of the cell that this file writes


def chapters() -> dict[int, Path]:
    """Number -> notebook, of all chapters that are there."""
    return {int(path.name[:2]): path for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))}


# Whoever reads all of it has the costs (11) in hand when they open vLLM's own sources (10).
EVERYTHING = tuple(sorted(chapters(), key=lambda number: 11.5 if number == 10 else number))
ROUTES = {"90 minutes": (0, 3, 7), "a day": (0, 1, 3, 4, 5, 7, 8, 10), "everything": EVERYTHING}


def question(path: Path) -> str:
    """A chapter's title, without the number: ``Which block holds token 9?``"""
    first_line = nbformat.read(path, as_version=4).cells[0].source.splitlines()[0]
    return first_line.partition("·")[2].strip()


def mark(number: int) -> str:
    """The text at the end of chapter ``number``: what comes next on each route."""
    there, rows = chapters(), []
    for route, stops in ROUTES.items():
        ahead = stops[stops.index(number) + 1 :] if number in stops else [stop for stop in stops if stop > number]
        after = next((stop for stop in ahead if stop in there), None)
        if after is None:
            where = "this was its last chapter: [where to go next](../docs/where-next.md)"
            if number not in stops:
                where = "ended before this chapter"
        else:
            where = f"[{after:02d} · {question(there[after])}]({there[after].name})"
            if number not in stops:
                where += " (this chapter is not on it)"
        rows.append(f"| {route} | {where} |")
    words = "Words that you meet here are in the [glossary](../docs/glossary.md)."
    return "\n".join(["## Next on your route", "", "| route | next |", "|---|---|", *rows, "", words])


def write_marks() -> None:
    """Put the mark behind every chapter, in place of the one that is there."""
    for number, path in chapters().items():
        notebook = nbformat.read(path, as_version=4)
        cells = [cell for cell in notebook.cells if TAG not in cell.metadata.get("tags", [])]
        last = nbformat.v4.new_markdown_cell(mark(number), metadata={"tags": [TAG]})
        last["id"] = f"cell-{len(cells)}"  # as run_notebooks.py counts them
        notebook.cells = [*cells, last]
        nbformat.write(notebook, path)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    write_marks()
