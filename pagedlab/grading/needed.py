"""Which cells does a part need? Those alone are run for it, so that a mistake in one part costs no points in
another."""

from __future__ import annotations

import ast

from pagedlab.grading.notebook import Cell
from pagedlab.grading.part import Part


def needed_cells(cells: list[Cell], part: Part) -> list[Cell]:
    """The learner's cells for ``part``, and above its check every cell that gives a value to a name that is needed.

    Needed are the names that the check takes, the names that a chosen cell uses, and so on. A cell counts as giving a
    value to ``x`` where it assigns, defines, imports or deletes x, changes it (``x.y = …``, ``x[i] = …``, ``x += …``)
    or calls a method of it on a line of its own (``x.append(1)``). Check cells never count.
    """
    check = next(i for i, cell in enumerate(cells) if cell.role == "check" and cell.part == part.name)
    wanted = {"*", *part.needs}
    chosen: list[Cell] = []
    for cell in reversed([cell for cell in cells[:check] if cell.kind == "code" and cell.role != "check"]):
        own = cell.role == "learner" and cell.part == part.name
        try:
            tree = ast.parse(cell.source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            if own:  # the learner is to hear of it
                chosen.append(cell)
            continue
        if own or _gives(tree) & wanted:
            chosen.append(cell)
            wanted |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return chosen[::-1]


def _gives(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(
            node.ctx, (ast.Store, ast.Del)
        ):
            names.add(_root(node))
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
        ):
            names.add(_root(node.value.func))
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names - {""}


def _root(node: ast.expr) -> str:
    """The name that an expression like ``a.b[0].c`` starts with; empty where it starts with none."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
