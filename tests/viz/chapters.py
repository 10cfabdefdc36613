"""The labs of the course as its chapters open them, made in this process: each lab's cell, and of the cells above it
only those that what it shows depends on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat

from pagedlab import viz

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
CHAPTERS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
OPENS = re.compile(rf"(?<![\w.])({'|'.join(viz.__all__)})\(")


def labs_of(chapter: str) -> Iterator[tuple[str, Any]]:
    """Every lab that a cell of this chapter ends with (in its order): the cell's last line, and the lab."""
    cells = [c.source for c in nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", 4).cells if c.cell_type == "code"]
    trees = [ast.parse(source) for source in cells]
    done: set[int] = set()
    names: dict[str, Any] = {}
    for i, source in enumerate(cells):
        if not OPENS.search(source) or not isinstance(trees[i].body[-1], ast.Expr):
            continue
        shown = trees[i].body[-1].value
        if not (isinstance(shown, ast.Name) or OPENS.search(ast.unparse(shown))):
            continue
        for j in [j for j in needed(trees, i) if j not in done]:
            exec(compile(ast.Module(trees[j].body, []), f"{chapter}, cell {j}", "exec"), names)
            done.add(j)
        exec(compile(ast.Module(trees[i].body[:-1], []), f"{chapter}, cell {i}", "exec"), names)
        lab = eval(compile(ast.Expression(shown), f"{chapter}, cell {i}", "eval"), names)
        done.add(i)
        if lab is not None:
            yield ast.unparse(shown), lab


def needed(trees: list[ast.Module], last: int) -> list[int]:
    """The cells before ``last`` that bind a name it needs, put something into it, or call a method of it (which may
    change it)."""
    names, found = _used(trees[last]), []
    for i in range(last - 1, -1, -1):
        changed = {_root(node.func) for node in ast.walk(trees[i]) if isinstance(node, ast.Call)}
        if names & (_bound(trees[i]) | (changed - {""})):
            found.append(i)
            names |= _used(trees[i])
    return found[::-1]


def _root(node: ast.AST) -> str:
    """ "llm" of ``llm.scheduler.step``; "" of what is no method."""
    if not isinstance(node, ast.Attribute):
        return ""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _used(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _bound(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Subscript(ctx=ast.Store(), value=ast.Name(id=changed)):
                names.add(changed)
            case ast.FunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Import() | ast.ImportFrom():
                names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return names
