"""What stands where in a notebook: the learner's cells, the lines of their answers, and what else they need to run."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pagedlab.grading.notebook import Cell, read_cells, seed_of
from pagedlab.grading.part import load_exercise

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Solved:
    """A part's solution. ``lines``: of ``source``, those that answer; ``given``: what the notebook says above it."""

    part: str
    source: str
    lines: tuple[range, ...]
    given: tuple[ast.stmt, ...]
    seed: int


@lru_cache
def solved(part: str) -> Solved:
    """The solution of the part "03.2"."""
    cells = _cells(part[:2])
    at, cell = next((i, cell) for i, cell in enumerate(cells) if cell.role == "learner" and cell.part == part)
    lines, start = [], 0
    for number, line in enumerate(cell.source.split("\n"), start=1):
        if line.strip() == "### BEGIN SOLUTION":
            start = number + 1
        elif line.strip() == "### END SOLUTION":
            lines.append(range(start, number))
    above = tuple(s for c in cells[:at] if c.kind == "code" and not c.role for s in ast.parse(c.source).body)
    return Solved(part, cell.source, tuple(lines), above, seed_of(cells) or 0)


@lru_cache
def _cells(number: str) -> list[Cell]:
    return read_cells(ROOT / "solutions" / f"{load_exercise(number).name}.ipynb")


def needed(given: tuple[ast.stmt, ...], sources: list[str]) -> str:
    """Of what the notebook says above an answer, what gives a value to a name that ``sources`` read, and so on."""
    wanted = {n.id for source in sources for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name)}
    kept = []
    for statement in reversed(given):
        if _gives(statement) & wanted:
            kept.append(statement)
            wanted |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)} - set(dir(builtins))
    return "\n".join(ast.unparse(statement) for statement in reversed(kept))


def _gives(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
