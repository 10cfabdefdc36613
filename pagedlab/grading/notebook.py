"""Reads a submission, whatever it looks like, and finds out which exercise it is and what each of its cells is.

Colab and VS Code drop or ignore a cell's metadata, so a learner's cell says in its text, too, what it is
(``# part 03.2``), and a check is known by its call (``restore.py``).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.grading.part import EXERCISES, load_exercise

MAX_BYTES = 50 << 20
REFERENCE = Path(__file__).with_name("reference")

PART_LINE = re.compile(r"^\s*#\s*part\s+(\d\d\.\d+)\b", re.IGNORECASE | re.MULTILINE)
CHECK_CALL = re.compile(r"\bcheck\(\s*[\"'](\d\d\.\d+)")
COLAB_ID = "set-up-colab"  # the id of the cell that sets up Colab; nbgrader knows nothing of it
SEED_LINE = re.compile(r"^(SEED *= *)(\d{1,9})\b", re.MULTILINE)
# Learners' cells are called "part-03-2", check cells "check-03-2", other cells of ours "03-start" and the like.
GRADE_ID = re.compile(r"^(?:(?:part|check)-)?(\d\d)-(\d*)")


@dataclass
class Cell:
    """A cell, stripped to what counts.

    role: "learner" (to be filled in), "check", or "" (any other, ours or the learner's own)
    part: of a learner's cell or a check: "03.2"
    put_in: a check that was put in for want of one
    """

    kind: str  # code, markdown or raw
    source: str
    role: str = ""
    part: str = ""
    grade_id: str = ""
    outputs: list[Any] = field(default_factory=list)
    put_in: bool = False


def read_cells(path: Path) -> list[Cell]:
    """The cells of a notebook file. Raises PagedlabError for a file that is missing, too large, or no notebook."""
    return cells_of(path, read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """Raises PagedlabError for a file that is missing or too large."""
    try:
        if not path.exists():
            raise PagedlabError(f"There is no file {path}.")
        if not path.is_file():
            raise PagedlabError(f"{path} is not a file; give a notebook (.ipynb).")
        if path.stat().st_size > MAX_BYTES:
            raise PagedlabError(f"{path} has more than {MAX_BYTES >> 20} MB; clear its outputs and save it again.")
        return path.read_bytes()
    except OSError as error:
        raise PagedlabError(f"{path} cannot be read: {error.strerror}.") from None


def cells_of(path: Path, data: bytes) -> list[Cell]:
    """The cells of the notebook whose file ``path`` holds, or held, ``data``. Raises PagedlabError where it is none."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PagedlabError(f"{path} is not a notebook: it is no text. Give a notebook (.ipynb).") from None
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        raise PagedlabError(
            f"{path} is not a notebook: it is no JSON, or was cut off. Save it again in Jupyter."
        ) from None
    try:
        return [_cell(raw) for raw in _current_format(notebook)["cells"]]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise PagedlabError(f"{path} is not a notebook: there are no cells in it that can be read.") from None


def _current_format(data: Any) -> Any:
    """Notebooks of format 4 as they are: what we need of them, every version of it has. Older ones are converted."""
    if data.get("nbformat") == 4:
        return data
    import nbformat  # slow to import, and the process that holds a learner's code needs it seldom

    try:
        return nbformat.convert(nbformat.from_dict(data), 4)
    except Exception as error:  # its converters meet what they do not expect with any exception at all
        raise ValueError(f"cannot be converted: {error}") from None


def _cell(raw: Any) -> Cell:
    source = raw["source"]
    source = "".join(source) if isinstance(source, list) else source
    if not isinstance(source, str):
        raise TypeError(f"source is {type(source)}")
    metadata = raw.get("metadata") or {}
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    nbgrader = nbgrader if isinstance(nbgrader, dict) else {}
    outputs = raw.get("outputs")
    cell = Cell(
        str(raw["cell_type"]),
        source.encode("utf-8", "replace").decode(),  # half a character cannot be run, written or shown
        grade_id=str(nbgrader.get("grade_id", "")),
        outputs=outputs if isinstance(outputs, list) else [],
    )
    # What a cell says in its text counts more than its metadata: it is what the learner sees.
    if cell.kind != "code" or raw.get("id") == COLAB_ID:
        return cell
    if match := PART_LINE.search(cell.source):
        cell.role, cell.part = "learner", match[1]
    elif (nbgrader.get("solution") or nbgrader.get("grade")) and (match := GRADE_ID.match(cell.grade_id)):
        cell.role = "learner" if nbgrader.get("solution") else "check"
        cell.part = f"{match[1]}.{match[2]}"
    return cell


def exercise_number(path: Path, cells: list[Cell]) -> str:
    """Which exercise this is, by what its cells say. Raises PagedlabError where they say nothing that we know."""
    votes: Counter[str] = Counter()
    for cell in cells:
        for pattern in (PART_LINE, CHECK_CALL):
            votes.update(name[:2] for name in pattern.findall(cell.source))
        if match := GRADE_ID.match(cell.grade_id):
            votes[match[1]] += 1
    for number, _ in votes.most_common():
        if number in EXERCISES:
            return number
    raise PagedlabError(
        f"{path} is not one of the course's exercises: no cell in it says `# part 03.1` or the like. "
        "Give a notebook made from exercises/."
    )


def read_reference(number: str) -> list[Cell]:
    """The cells of the reference notebook, with the check cells' outputs. Raises PagedlabError where a check was
    never run."""
    path = REFERENCE / f"{load_exercise(number).name}.ipynb"
    cells = read_cells(path)
    for cell in cells:
        if cell.role == "check" and not check_line(cell).startswith("✓"):
            raise PagedlabError(
                f"The reference {path.name} cannot be graded against: its check {cell.grade_id} was not run, "
                "or failed. Run `python -m pagedlab.grading.make_exercises --execute`."
            )
    return cells


def check_line(cell: Cell) -> str:
    """The one line that a check cell printed; empty where it printed none, or anything else."""
    if len(cell.outputs) != 1 or cell.outputs[0].get("output_type") != "stream":
        return ""
    text = "".join(cell.outputs[0].get("text", ""))
    return text.strip() if text.count("\n") == 1 else ""


def seed_of(cells: list[Cell]) -> int | None:
    """The number in the cell that says ``SEED = …``; None where there is none."""
    for cell in cells:
        if cell.kind == "code" and (match := SEED_LINE.search(cell.source)):
            return int(match[2])
    return None
