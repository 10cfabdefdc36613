"""Small files with answers, and what is to become of them."""

import re
from pathlib import Path

from mutants.cells import solved

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = ROOT / "tests" / "mutants"


def mutants_in(folder: Path, glob: str = "*") -> list[Path]:
    """Files with whole cells (.py) or with changes to a solution's cell (.diff)."""
    return sorted(file for file in folder.glob(glob) if file.suffix in (".py", ".diff"))


def answers_of(mutant: Path) -> dict[str, str]:
    """A mutant's cells: by part ("03.1"), and "added" for a cell of the learner's own."""
    pieces = re.split(r"^# (part \d\d\.\d|change \d\d\.\d|added)$", mutant.read_text(), flags=re.MULTILINE)
    cells = {}
    for name, source in zip(pieces[1::2], pieces[2::2], strict=True):
        kind, _, part = name.partition(" ")
        if kind == "change":
            cells[part] = changed(solution(part), source)
        else:
            cells[part or name] = source.strip() if kind == "added" else f"# {name}\n{source.strip()}"
    return cells


def solution(part: str) -> str:
    """A part's solution, as a learner would have written it."""
    return re.sub(r"^ *### (BEGIN|END) SOLUTION\n", "", solved(part).source, flags=re.MULTILINE)


def in_wgsl(source: str) -> str:
    """The solution's cell of part 05.3 with its other half switched on; any other cell as it is."""
    return source.replace("IN_WGSL = False", "IN_WGSL = True")


def changed(source: str, changes: str) -> str:
    """``changes``: hunks as in a diff, "@@" between them. What stays or goes in one stands in ``source`` just once."""
    text = f"\n{source.strip()}\n"
    for hunk in re.split(r"^@@\n", changes.strip("\n"), flags=re.MULTILINE):
        lines = hunk.strip("\n").split("\n")
        before, after = ("".join(f"{line[1:]}\n" for line in lines if line[:1] != gone) for gone in "+-")
        assert text.count(f"\n{before}") == 1, f"not once in the solution:\n{before}"
        text = text.replace(f"\n{before}", f"\n{after}")
    return text.strip()


def loses(mutant: Path) -> set[str]:
    """The parts whose points a mutant is to lose."""
    words = re.search(r"^# loses: (.*)$", mutant.read_text(), flags=re.MULTILINE)[1].split()
    return set() if words == ["nothing"] else set(words)


def learner_cell(nb, part):
    """The cell for a part ("03.1")."""
    name = f"part-{part.replace('.', '-')}"
    return next(cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name)
