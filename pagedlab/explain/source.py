"""A log as lines of text, from a file or from standard input; never all of it in memory."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pagedlab.errors import PagedlabError

LONGEST = 1 << 16  # characters of a line that are read at once; a longer one comes in pieces
COMPRESSED = {b"\x1f\x8b": "gzip -dc", b"BZh": "bzip2 -dc", b"\xfd7zXZ": "xz -dc", b"\x28\xb5\x2f\xfd": "zstd -dc"}
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # how PowerShell's > writes


def lines_of(source: str) -> Iterator[str]:
    """The lines of the file ``source``, or of standard input where it is "-". Raises PagedlabError, in a sentence, for
    what cannot be read or is no text."""
    if not source:
        raise PagedlabError("The name of the log is empty. Give the file of a vLLM log, or - for a pipe.")
    if source == "-":
        yield from _text("Standard input", "-", sys.stdin.buffer)
        return
    try:
        with Path(source).open("rb") as file:
            yield from _text(source, source, file)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        if isinstance(error, PagedlabError):
            raise
        why = getattr(error, "strerror", None) or str(error)
        raise PagedlabError(f"{source} cannot be read: {why}. Give the file of a vLLM log, or - for a pipe.") from None


def _text(name: str, path: str, file: BinaryIO) -> Iterator[str]:
    stream = file if hasattr(file, "peek") else io.BufferedReader(file)
    head = stream.peek(4096)[:4096]
    if not head:
        raise PagedlabError(f"{name} is empty. Give a vLLM log: what `vllm serve` prints, standard error included.")
    for magic, command in COMPRESSED.items():
        if head.startswith(magic):
            raise PagedlabError(f"{name} is compressed. Unpack it first: {command} {path} | pagedlab explain -")
    encoding = "utf-16" if head.startswith(UTF16) else "utf-8-sig"
    if encoding != "utf-16" and b"\0" in head:
        raise PagedlabError(f"{name} is binary, no text. Give a vLLM log: what `vllm serve` prints.")
    text = io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="\n")
    try:
        while line := text.readline(LONGEST):
            yield line
    finally:
        text.detach()
