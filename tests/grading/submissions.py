"""Small files with answers, and what is to become of them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = ROOT / "tests" / "mutants"


def answers_of(mutant: Path) -> dict[str, str]:
    """A mutant's cells: by part ("03.1"), and "added" for a cell of the learner's own."""
    pieces = re.split(r"^# (part \d\d\.\d|added)$", mutant.read_text(), flags=re.MULTILINE)
    cells = {}
    for name, source in zip(pieces[1::2], pieces[2::2], strict=True):
        part = name.removeprefix("part ")
        cells[part] = source.strip() if part == "added" else f"# {name}\n{source.strip()}"
    return cells


def loses(mutant: Path) -> set[str]:
    """The parts whose points a mutant is to lose."""
    words = re.search(r"^# loses: (.*)$", mutant.read_text(), flags=re.MULTILINE)[1].split()
    return set() if words == ["nothing"] else set(words)


def learner_cell(nb, part):
    """The cell for a part ("03.1")."""
    name = f"part-{part.replace('.', '-')}"
    return next(cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name)
