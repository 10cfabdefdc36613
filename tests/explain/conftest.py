"""What the tests of `pagedlab explain` share."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pagedlab.explain.advice import Knob, advise
from pagedlab.explain.arithmetic import Derived, derive
from pagedlab.explain.card import Card, card
from pagedlab.explain.findings import Findings
from pagedlab.explain.notes import notes
from pagedlab.explain.reader import read_log

LOGS = Path(__file__).parent / "logs"


@dataclass
class Read:
    """A log, read and reckoned."""

    f: Findings
    d: Derived
    card: Card
    knobs: list[Knob]
    notes: list[str]

    @property
    def all_notes(self) -> str:
        """All notes."""
        return " ".join(self.notes)

    def knob(self, name: str) -> str:
        """What is said of one knob."""
        return next(knob.effect for knob in self.knobs if knob.name == name)


@pytest.fixture
def read() -> Callable[[str], Read]:
    """`read(text)`, or `read("name-of-a-log")`."""

    def read(text: str) -> Read:
        text = text if "\n" in text else (LOGS / f"{text}.log").read_text()
        f = read_log(text.splitlines(keepends=True))
        assert f is not None, "nothing was understood"
        d = derive(f)
        parts = card(f, d)
        return Read(f, d, parts, advise(f, d), notes(f, d, parts))

    return read
