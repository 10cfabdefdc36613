"""What a vLLM log says about memory: where the card's went, what the pool holds, what failed, which knobs would help.

One way through: ``source.py`` opens a file or a pipe, ``lines.py`` makes records of what terminals, containers and
loggers did to the lines, ``reader.py`` takes figures out of them by the spellings of ``spellings.py``,
``runtime.py`` and ``failures.py``. What comes out is a :class:`Findings`: what the log says, and None for what it
does not. ``arithmetic.py`` adds what follows from it, ``notes.py`` what misleads in it, ``advice.py`` what to try.
``report.py`` and ``as_json.py`` print. Needs the standard library only.
"""

from pagedlab.explain.command import run
from pagedlab.explain.findings import Failure, Findings, Runtime
from pagedlab.explain.reader import read_log

__all__ = ["Failure", "Findings", "Runtime", "read_log", "run"]
