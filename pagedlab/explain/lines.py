"""Records out of lines: what vLLM logged, less what terminals, containers and loggers put around it.

A record is one call of the logger, or one line of a traceback. In front of it there may be a timestamp of Docker or
Kubernetes, the name of a container, colours, `(EngineCore_DP1 pid=38)`, `[rank0]:`; it may be wrapped by a terminal,
also in the middle of a word; two records may have lost the line end between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LARGEST = 1 << 14  # characters of a record; what has no header for longer than that is no wrapped line

ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
AROUND = re.compile(
    r"^(?:[>│|]\s+"  # a quotation, the frame of a terminal's pane
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?\s+"  # Docker, Kubernetes, CI
    r"|std(?:out|err) [FP] "  # CRI's log format
    r"|\[?[\w./-]{1,100}(?:\]|\s+\|)\s+"  # docker compose: `vllm-1  | `; kubectl logs --prefix: `[pod/a/b] `
    r")"
)
PROCESS = r"\((?P<process>[^)]{1,80}\)* ?pid=\d+[^)]{0,40})\)"
ENDS_IN_PROCESS = re.compile(rf"{PROCESS}\s*$")
HEADER = re.compile(
    r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? \[?[\w./]+\.py:\d+\]?\s?")
BEGINS = re.compile(  # a record that has no header: of another program, of a traceback, or pasted without it
    rf"(?:{PROCESS}|\[rank\d+\]:|Traceback|(?:INFO|WARNING|ERROR):|[\w.]*(?:Error|Exception)\b"
    r"|Loading (?:model )?weights took|Model loading took|Memory profiling|Available KV cache|Maximum concurrency"
    r"|# \w+ blocks:|\w+ KV cache size:|Graph capturing|Initializing an?\b|Engine \d+:|Avg prompt)\s?"
)
OURS = re.compile(r"# (?!\w+ blocks:)")  # a remark above a log; `# GPU blocks: 1952` is none


@dataclass(frozen=True)
class Record:
    """One thing that was logged. ``process`` is what stands before it in brackets ("Worker_TP0 pid=147"), or ""."""

    process: str
    text: str
    tight: str  # the same with the pieces of a wrapped line put together without a space

    @property
    def name(self) -> str:
        """The process without its number: "Worker_TP0"."""
        return self.process.split(" pid=")[0]


def clean(line: str) -> str:
    """``line`` without colours, timestamps of containers, and the like."""
    line = ANSI.sub("", line) if "\x1b" in line else line
    line = line.strip().removesuffix("│").rstrip()
    if line.startswith("{"):
        line = _unpacked(line)
    while around := AROUND.match(line):
        line = line[around.end() :]
    return line


def _unpacked(line: str) -> str:
    """What was logged, from a line of Docker's json-file, or of a logger that writes JSON."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return line
    words = (fields.get(key) for key in ("log", "message", "msg"))
    return ANSI.sub("", next((word for word in words if isinstance(word, str)), line)).strip()


def records(lines: Iterable[str]) -> Iterator[Record]:
    """The records of ``lines``, in their order."""
    process, pieces, size = "", [], 0
    for line in lines:
        for part in line.split("\r"):  # a progress bar; or the line ends that vLLM puts inside of a message
            text = clean(part)
            if not text or OURS.match(text):
                continue
            for process_here, begins, piece in _pieces(text):
                if pieces and (begins or size + len(piece) > LARGEST):
                    yield _record(process, pieces)
                    process, pieces, size = "", [], 0
                process = process_here if begins else process
                pieces.append(piece)
                size += len(piece)
    if pieces:
        yield _record(process, pieces)


def _pieces(text: str) -> Iterator[tuple[str, bool, str]]:
    """(process, does a record begin here, text) for each part of a line that has a header, and for what is before."""
    process, begins, start = "", False, 0
    for header in HEADER.finditer(text) if ".py:" in text else ():
        before, after = text[start : header.start()], ""
        if named := ENDS_IN_PROCESS.search(before[-200:]):
            before, after = before[: -len(named[0])], named["process"]
        if before := before.strip():
            yield (process, True, before) if begins else _without_header(before)
        process, begins, start = after, True, header.end()
    if rest := text[start:].strip():
        yield (process, True, rest) if begins else _without_header(rest)


def _without_header(text: str) -> tuple[str, bool, str]:
    found = BEGINS.match(text)
    return (found and found["process"]) or "", bool(found), text


def _record(process: str, pieces: list[str]) -> Record:
    return Record(process, " ".join(pieces), "".join(pieces) if len(pieces) > 1 else "")
