"""Judges a mutant in this process, quickly and as often as is wanted, and says which property was blamed."""

from __future__ import annotations

import json
import random
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from IPython.utils.capture import capture_output
from submissions import ROOT, answers_of

from pagedlab.grading.part import Part, Verdict, ask, examine, load_exercise
from pagedlab.grading.plain import NotPlain, plain

SEED = 47  # of the solutions


def blames(mutant: Path) -> dict[str, str]:
    """Which property of which part a mutant is to be told of: its lines `# blames: 07.1 the words of the property`."""
    lines = re.findall(r"^# blames: (\d\d\.\d) (.+)$", mutant.read_text(), flags=re.MULTILINE)
    return dict(lines)


@lru_cache(maxsize=20)
def _cells(number: str) -> dict[str, str]:
    """By name: the cells of a solution that import something or say what the learner's cells rest on, and the
    answers."""
    [path] = (ROOT / "solutions").glob(f"{number}_*.ipynb")
    nb = json.loads(path.read_text())
    found = {}
    for cell in nb["cells"]:
        source, name = "".join(cell["source"]), cell["id"]
        first = "import" in name or name.endswith(("lineup", "traces"))
        if cell["cell_type"] == "code" and (first or name.startswith("part-")):
            found[name] = source
    return found


def objects_of(number: str, answers: dict[str, str]) -> dict[str, Any]:
    """What a notebook with these answers defines. Parts that are not given are right."""
    names: dict[str, Any] = {"SEED": SEED}
    with capture_output():
        for name, source in _cells(number).items():
            part = name.removeprefix("part-").replace("-", ".")
            if name.startswith("part-") and "added" in answers:
                exec(answers["added"], names)
            exec(answers.get(part, source) if name.startswith("part-") else source, names)
    return names


def verdict(part: Part, objects: dict[str, Any], rng: random.Random, seed: int = SEED) -> Verdict:
    cases, answers = json.loads(json.dumps(part.cases(rng, seed))), []
    own = {name: objects[name] for name in part.needs}
    with capture_output():
        for case in cases:
            try:
                answers.append(plain(ask(part.probe, own, case)))
            except NotPlain as error:
                return Verdict(False, "the code runs and answers", str(error))
    return examine(part, cases, answers)


def judged(mutant: Path, draws: int, parts: set[str] | None = None) -> dict[str, set[str]]:
    """By part: the properties that were blamed in so many draws; "" where the answer passed."""
    exercise, answers = load_exercise(mutant.parent.name), answers_of(mutant)
    objects = objects_of(mutant.parent.name, answers)
    return {
        part.name: {verdict(part, objects, random.Random(draw)).property for draw in range(draws)}
        for part in exercise.parts
        if part.name in (parts or answers)
    }
