"""The learner's notebook as it was left, with the reference's checks in the places of its own.

Every cell stays where and as it is, ours too, edited or not. What is put in, and nothing else:

* Above all, one cell with what the notebook imports for the learner, and with the seed: some editors and learners
  lose these cells. A cell further down that says otherwise counts, as in any notebook.
* The reference's check, for a cell that is a check: by its grade_id, or because it calls ``check("03.2", …)``. A cell
  that does more than that stays, and the check follows it. So a cell that is taken for a check costs nothing.
* The reference's check, for a part that has none below its last cell: behind that cell, and once more above the next
  part's first cell, since an answer may go on in cells that do not say whose they are.

Several checks of one part: the last one counts at which there is an answer; those that were put in for want of one
count only where no other has met an answer (``judge.py`` sees to both).

Marks that would tell nbval to look away are taken out.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from pagedlab.grading.notebook import SEED_LINE, Cell, seed_of
from pagedlab.grading.parsing import parse_cell

NBVAL_MARKS = {
    "NBVAL_SKIP",
    "NBVAL_RAISES_EXCEPTION",
    "NBVAL_IGNORE_OUTPUT",
    "NBVAL_CHECK_OUTPUT",
    "PYTEST_VALIDATE_IGNORE_OUTPUT",
}


@dataclass
class Restored:
    """The notebook to run, and what there is to say about it."""

    cells: list[Cell]
    seed: int
    notes: list[str] = field(default_factory=list)


def restore(reference: list[Cell], submission: list[Cell], seed: int | None = None) -> Restored:
    """``seed``: goes into every cell that says ``SEED = …`` (None: the submission's own counts)."""
    own_seed = next((s for s in (seed, seed_of(submission), seed_of(reference)) if s is not None), 0)
    checks = {cell.part: cell for cell in reference if cell.role == "check"}
    cells = [_given(reference, own_seed)]
    notes: list[str] = []
    for cell in submission:
        parts, more = _checks_in(cell)
        parts = [part for part in parts if part in checks]
        if not parts or more:
            cells.append(_cleaned(cell, seed, notes))
        cells += [checks[part] for part in parts]
    for part in checks:
        own = [i for i, cell in enumerate(cells) if cell.role == "learner" and cell.part == part]
        if not own:
            notes.append(f"part {part} has no cell any more; it must begin with the line `# part {part}`")
        below = range(own[-1] + 1, len(cells)) if own else range(0)
        if not any(cells[i].role == "check" and cells[i].part == part for i in below):
            next_part = next((i for i in below if cells[i].role == "learner"), len(cells))
            for place in sorted({next_part, below.start if own else next_part}, reverse=True):
                cells.insert(place, replace(checks[part], put_in=True))
    return Restored(cells, own_seed, list(dict.fromkeys(notes)))


def _given(reference: list[Cell], seed: int) -> Cell:
    """What the reference imports outside of functions, and the seed."""
    lines = []
    for cell in reference:
        if cell.kind == "code" and not cell.role:
            tree = parse_cell(cell.source)
            lines += [ast.unparse(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return Cell("code", "\n".join([*lines, f"SEED = {seed}"]))


def _checks_in(cell: Cell) -> tuple[list[str], bool]:
    """(the parts whose check this cell is, whether it does more than to check)."""
    if cell.kind != "code" or not (cell.role == "check" or "check" in cell.source):
        return [], True
    tree = parse_cell(cell.source)
    calls = [_part_checked(statement) for statement in tree.body] if tree else [None]
    parts = [part for part in calls if part]
    if not parts and cell.role == "check":
        parts = [cell.part]
    return list(dict.fromkeys(parts)), not all(calls)


def _part_checked(statement: ast.stmt) -> str | None:
    """ "03.2" for a statement ``check("03.2", …)``."""
    match statement:
        case ast.Expr(ast.Call(ast.Name("check") | ast.Attribute(attr="check"), [ast.Constant(str() as part), *_])):
            return part
    return None


def _cleaned(cell: Cell, seed: int | None, notes: list[str]) -> Cell:
    """The cell without marks for nbval, with the seed, and no check."""
    role, part = ("", "") if cell.role == "check" else (cell.role, cell.part)
    source = cell.source
    if cell.kind == "code":
        lines = source.split("\n")
        kept = [line for line in lines if not _is_mark(line)]
        if len(kept) < len(lines) and role == "learner":
            notes.append("marks for nbval were removed from a cell of yours")
        source = "\n".join(kept)
        if seed is not None:
            source = SEED_LINE.sub(rf"\g<1>{seed}", source)
    return replace(cell, source=source, role=role, part=part, outputs=[])


def _is_mark(line: str) -> bool:
    line = line.strip()
    return line.startswith("#") and line.lstrip("#").strip() in NBVAL_MARKS
