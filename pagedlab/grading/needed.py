"""Which cells does a part need? Those alone are run for it, so that a mistake in one part costs no points in
another."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator

from pagedlab.grading.notebook import Cell
from pagedlab.grading.parsing import parse
from pagedlab.grading.part import Part

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def needed_cells(cells: list[Cell], part: Part) -> list[Cell]:
    """The learner's cells for ``part``, and above its check every cell that gives a value to a name that is needed.

    Needed are the names that the check takes, the names that a chosen cell uses, and so on. A cell counts as giving a
    value to ``x`` where it assigns, defines, imports or deletes x, changes it (``x.y = …``, ``x[i] = …``, ``x += …``)
    or calls a method of it on a line of its own (``x.append(1)``). Names that belong to a function are nobody else's.
    Check cells never count.
    """
    check = next(i for i, cell in enumerate(cells) if cell.role == "check" and cell.part == part.name)
    wanted = {"*", *part.needs}
    chosen: list[Cell] = []
    for cell in reversed([cell for cell in cells[:check] if cell.kind == "code" and cell.role != "check"]):
        own = cell.role == "learner" and cell.part == part.name
        try:
            tree, table = parse(cell.source), symtable.symtable(cell.source, "cell", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            if own:  # the learner is to hear of it
                chosen.append(cell)
            continue
        if own or _gives(tree, table) & wanted:
            chosen.append(cell)
            wanted |= _uses(table)
    return chosen[::-1]


def _gives(tree: ast.Module, table: symtable.SymbolTable) -> set[str]:
    """The notebook's names to which a cell gives a value or that it changes."""
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    for inner in _inside(table):
        names |= {s.get_name() for s in inner.get_symbols() if s.is_declared_global() and s.is_assigned()}
    for node in _outside_functions(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.add(_root(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if isinstance(node.value.func, ast.Attribute):
                names.add(_root(node.value.func))
        elif isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            names.add("*")
    return names - {""}


def _uses(table: symtable.SymbolTable) -> set[str]:
    """The notebook's names that a cell looks up, in functions too."""
    names = {symbol.get_name() for symbol in table.get_symbols()}
    for inner in _inside(table):
        names |= {symbol.get_name() for symbol in inner.get_symbols() if symbol.is_global()}
    return names


def _inside(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for inner in table.get_children():
        yield inner
        yield from _inside(inner)


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, FUNCTIONS):
            yield inner
            yield from _outside_functions(inner)


def _root(node: ast.expr) -> str:
    """The name that an expression like ``a.b[0].c`` starts with; empty where it starts with none."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
