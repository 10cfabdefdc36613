"""``tests/mutants/equivalent/NN.toml``: the mutants that no check can tell from the solution, each with the reason.

    [[mutant]]
    part = "01.1"
    was = "if size >= length:"
    now = "if length <= size:"
    why = "The same comparison, read from the other side."

``was`` and ``now`` are the lines that differ, without their indentation.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass

from mutants.cells import ROOT

FOLDER = ROOT / "tests" / "mutants" / "equivalent"


@dataclass(frozen=True)
class Change:
    """What tells a mutant from its solution."""

    part: str
    was: str
    now: str

    def as_toml(self) -> str:
        """An entry that still lacks its reason."""
        lines = [f"{name} = {_quoted(getattr(self, name))}" for name in ("part", "was", "now")]
        return "\n".join(["[[mutant]]", *lines, 'why = ""', ""])


def change(part: str, source: str, mutant: str) -> Change:
    """From the first line that differs to the last one."""
    a, b = ([line.strip() for line in text.split("\n") if "### BEGIN" not in line] for text in (source, mutant))
    for end in (0, -1):
        while a and b and a[end] == b[end]:
            del a[end], b[end]
    return Change(part, "\n".join(a), "\n".join(b))


def equivalents(number: str) -> dict[Change, str]:
    """The reasons, by what was changed. Raises ValueError for an entry without one, and for one that stands twice."""
    path = FOLDER / f"{number}.toml"
    found: dict[Change, str] = {}
    for entry in tomllib.loads(path.read_text())["mutant"] if path.exists() else []:
        one = Change(entry["part"], entry["was"], entry["now"])
        if one in found or not entry["why"].strip():
            raise ValueError(f"{path.name}: {one} stands twice or has no reason")
        found[one] = entry["why"]
    return found


def _quoted(text: str) -> str:
    return json.dumps(text) if "\n" not in text else "'''\n" + text + "'''"
