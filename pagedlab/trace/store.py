"""Traces in files: one JSON object a line, the header first, gzipped where the name ends in ``.gz``."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

from pagedlab.errors import PagedlabError
from pagedlab.trace.events import SCHEMA_VERSION, from_dict, to_dict
from pagedlab.trace.recorder import Trace


def save(trace: Trace, path: str | Path) -> Path:
    """Write the trace; an existing file is replaced only once the new one is whole."""
    path = Path(path)
    lines = [json.dumps({"kind": "header", **trace.header}, ensure_ascii=False)]
    lines += [json.dumps(to_dict(event), ensure_ascii=False) for event in trace.events]
    data = ("\n".join(lines) + "\n").encode()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # mtime=0: the same run gives the same bytes.
        temporary.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise PagedlabError(f"The trace could not be written to {path}: {error.strerror or error}.") from error
    return path


def check_writable(path: str | Path) -> None:
    """Raises PagedlabError where a trace could not be saved at ``path``: better before a long run than after it."""
    folder = Path(path).absolute().parent
    if Path(path).is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise PagedlabError(f"A trace cannot be written to {path}. Name a file in a folder that exists and is yours.")


def load(path: str | Path) -> Trace:
    """Read a trace. Raises PagedlabError for a missing, corrupt or incompatible file, and says at which line."""
    path = Path(path)
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except FileNotFoundError:
        raise PagedlabError(f"There is no trace file {path}.") from None
    except (OSError, EOFError, UnicodeDecodeError, gzip.zlib.error) as error:
        raise PagedlabError(f"{path} is not a readable trace (broken file: {error}). Record it again.") from error
    lines = text.removesuffix("\n").split("\n")  # not splitlines: a token's text may hold other line separators
    header = _json(path, 1, lines[0])
    if header.pop("kind", None) != "header":
        raise PagedlabError(f"{path} is not a pagedlab trace: its first line is no header.")
    if header.get("schema") != SCHEMA_VERSION:
        raise PagedlabError(
            f"{path} has trace schema {header.get('schema')!r}; this pagedlab reads schema {SCHEMA_VERSION}. "
            "Record it again with this version."
        )
    config = header.get("config")
    if not isinstance(config, dict) or not all(
        isinstance(config.get(k), int) and config[k] > 0 for k in ("num_blocks", "block_size")
    ):
        raise PagedlabError(
            f"{path} has a broken header: config must give num_blocks and block_size as positive numbers."
        )
    events = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            events.append(from_dict(_json(path, number, line)))
        except PagedlabError:
            raise
        except ValueError as error:
            raise PagedlabError(f"{path}, line {number}: {error}.") from error
    return Trace(header | {"live": False}, events)


def _json(path: Path, number: int, line: str) -> dict:
    try:
        data = json.loads(line)
    except json.JSONDecodeError:
        raise PagedlabError(f"{path}, line {number}: not a JSON object (the file is cut off or damaged).") from None
    if not isinstance(data, dict):
        raise PagedlabError(f"{path}, line {number}: not a JSON object.")
    return data
