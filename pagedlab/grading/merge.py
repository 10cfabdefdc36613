"""The reference notebook with a learner's cells in it.

Whatever a submission did to our cells is undone: the merged notebook has every cell of the reference in the
reference's order, and at each place the learner's own. What is taken from a submission:

* its cells for each part, in the order in which they stand there (split and duplicated ones too);
* the learner's own added cells, behind the cell that they stood behind;
* the seed.

Marks that would tell nbval to look away are removed from the learner's cells, and so are IPython's magics: what
they do is no part of an answer, and they could do anything to the cells below.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace

from pagedlab.grading.notebook import SEED_LINE, Cell
from pagedlab.grading.parsing import parse

NBVAL_MARKS = {
    "NBVAL_SKIP",
    "NBVAL_RAISES_EXCEPTION",
    "NBVAL_IGNORE_OUTPUT",
    "NBVAL_CHECK_OUTPUT",
    "PYTEST_VALIDATE_IGNORE_OUTPUT",
}
# Cell magics whose cell is ordinary Python. Any other one makes its cell something else.
PYTHON_CELL_MAGICS = {"time", "timeit", "capture", "prun"}


@dataclass
class Merged:
    """The rebuilt notebook, and what there is to say about it."""

    cells: list[Cell]
    notes: list[str] = field(default_factory=list)


def merge(reference: list[Cell], submission: list[Cell], seed: int | None = None) -> Merged:
    """Put ``submission``'s cells into ``reference``. ``seed``: goes into the cell that says SEED (None: as it is)."""
    notes: list[str] = []
    behind: list[list[Cell]] = [[] for _ in range(len(reference) + 1)]  # behind[i + 1]: after reference cell i
    place_of_part = {cell.part: i for i, cell in enumerate(reference) if cell.role == "learner"}
    at = 0
    for cell in submission:
        if cell.kind == "code" and cell.role == "learner" and cell.part in place_of_part:
            at = place_of_part[cell.part] + 1
            behind[at].append(clean(cell, notes))
        elif (i := _recognise(cell, reference)) is not None:
            at = i + 1
        elif cell.source.strip():
            behind[at].append(replace(clean(cell, notes), role="added", part=""))

    cells = list(behind[0])
    for cell, own in zip(reference, behind[1:], strict=True):
        if cell.role != "learner":
            cells.append(_with_seed(cell, seed))
        elif not any(mine.role == "learner" for mine in own):
            notes.append(f"part {cell.part} has no cell any more; it must begin with the line `# part {cell.part}`")
        cells += own
    return Merged(cells, notes)


def _recognise(cell: Cell, reference: list[Cell]) -> int | None:
    """Which of our locked cells is this (edited or not)? None for a learner's own."""
    for same in (
        lambda ours: cell.role == "check" == ours.role and ours.part == cell.part,
        lambda ours: bool(cell.grade_id) and ours.grade_id == cell.grade_id,
        lambda ours: bool(cell.cell_id) and ours.cell_id == cell.cell_id,
        lambda ours: ours.kind == cell.kind and ours.source.split() == cell.source.split(),
    ):
        for i, ours in enumerate(reference):
            if ours.role != "learner" and same(ours):
                return i
    return None


def _with_seed(cell: Cell, seed: int | None) -> Cell:
    if seed is None or cell.kind != "code":
        return cell
    return replace(cell, source=SEED_LINE.sub(rf"\g<1>{seed}", cell.source))


def clean(cell: Cell, notes: list[str]) -> Cell:
    """A learner's cell without nbval's marks, magics, outputs and identity."""
    if cell.kind != "code":
        return replace(cell, grade_id="", cell_id="", outputs=[])
    lines = cell.source.splitlines()
    kept = [line for line in lines if not _is_mark(line)]
    if len(kept) < len(lines):
        notes.append("marks for nbval were removed from a cell of yours")
    return replace(cell, source=_without_magics("\n".join(kept), notes), grade_id="", cell_id="", outputs=[])


def _is_mark(line: str) -> bool:
    line = line.strip()
    return line.startswith("#") and line.lstrip("#").strip() in NBVAL_MARKS


def _without_magics(source: str, notes: list[str]) -> str:
    """Plain Python. Magics and shell commands (``%timeit``, ``!ls``, ``name?``) are taken out."""
    magic = re.match(r"\s*%%(\w*)[^\n]*\n?", source)
    while magic:
        if magic[1] not in PYTHON_CELL_MAGICS:
            notes.append(f"a cell with %%{magic[1]} was left out: it is no Python")
            return f"# (a {magic[1]} cell was here)"
        source = source[magic.end() :]
        magic = re.match(r"\s*%%(\w*)[^\n]*\n?", source)
    try:
        parse(source)
        return source
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        turned = TransformerManager().transform_cell(source)
        tree = parse(turned)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source  # wrong with and without magics: the learner is told where the code is run
    lines = turned.splitlines()
    for statement in tree.body:
        if _is_shell_call(statement):
            for i in range(statement.lineno - 1, statement.end_lineno):
                lines[i] = "# (a magic was here)"
            notes.append("magics and shell commands were left out")
    return "\n".join(lines)


def _is_shell_call(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Expr, ast.Assign)) and any(
        isinstance(node, ast.Name) and node.id == "get_ipython" for node in ast.walk(statement)
    )
