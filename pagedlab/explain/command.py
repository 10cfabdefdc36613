"""The command: read, reckon, print."""

from __future__ import annotations

import sys

from pagedlab.errors import PagedlabError
from pagedlab.explain.advice import advise
from pagedlab.explain.arithmetic import derive
from pagedlab.explain.as_json import as_json
from pagedlab.explain.card import card
from pagedlab.explain.notes import notes
from pagedlab.explain.reader import read_log
from pagedlab.explain.report import report
from pagedlab.explain.source import lines_of
from pagedlab.terminal import is_terminal


def run(source: str, json: bool = False) -> None:
    """Print what the log ``source`` ("-": standard input) says. Raises PagedlabError for what cannot be read, and where
    nothing in it is vLLM's."""
    if source == "-" and is_terminal(sys.stdin):
        print("Reading standard input; Ctrl-D ends it.", file=sys.stderr)
    f = read_log(lines_of(source))
    if f is None:
        name = "standard input" if source == "-" else source
        raise PagedlabError(f"Nothing in {name} is a line of vLLM 0.6 to 0.33 about its memory. Give what `vllm serve` "
                            "prints from its start on, standard error included.")  # fmt: skip
    d = derive(f)
    parts = card(f, d)
    found = notes(f, d, parts)
    if json:
        print(as_json(f, d, found))
        return
    for line in report(f, d, parts, advise(f, d), found):
        print(line)
