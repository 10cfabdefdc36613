"""Traces in files: one JSON object a line, the header first, gzipped where the name ends in ``.gz``."""

from __future__ import annotations

import contextlib
import gzip
import json
import operator
import os
from pathlib import Path

from pagedlab.errors import PagedlabError, as_path
from pagedlab.trace.events import READABLE, from_dict, to_dict
from pagedlab.trace.recorder import Trace

MOST_SLOTS = 50_000_000  # every slot is kept in Python when a trace is replayed


def save(trace: Trace, path: str | Path) -> Path:
    """Write the trace; an existing file is replaced only once the new one is whole."""
    path = as_path(path)
    # A folder, a pipe, a device: not to be replaced.
    if not path.name or (os.path.exists(path) and not os.path.isfile(path)):
        raise PagedlabError(f"A trace cannot be written to {path}. Name a file in a folder that exists and is yours.")
    lines = [json.dumps({"kind": "header", **trace.header}, ensure_ascii=False)]
    # numpy's and torch's whole numbers, which a learner's parts may hand out, are written as plain ones
    lines += [json.dumps(to_dict(event), ensure_ascii=False, default=operator.index) for event in trace.events]
    data = ("\n".join(lines) + "\n").encode()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # mtime=0: the same run gives the same bytes.
        temporary.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        temporary.replace(path)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        with contextlib.suppress(OSError, ValueError):
            temporary.unlink()
        what = getattr(error, "strerror", None) or error
        raise PagedlabError(f"The trace could not be written to {path}: {what}.") from error
    return path


def check_writable(path: str | Path) -> None:
    """Raises PagedlabError where a trace could not be saved at ``path``: better before a long run than after it."""
    folder = as_path(path).absolute().parent
    special = os.path.exists(path) and not os.path.isfile(path)  # a folder, a pipe, a device
    if special or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise PagedlabError(f"A trace cannot be written to {path}. Name a file in a folder that exists and is yours.")


def load(path: str | Path) -> Trace:
    """Read a trace. Raises PagedlabError for a missing, corrupt or incompatible file, and says at which line."""
    path = as_path(path)
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except FileNotFoundError:
        raise PagedlabError(f"There is no trace file {path}.") from None
    except (OSError, EOFError, ValueError, gzip.zlib.error) as error:
        raise PagedlabError(f"{path} is not a readable trace (broken file: {error}). Record it again.") from error
    lines = text.removesuffix("\n").split("\n")  # not splitlines: a token's text may hold other line separators
    header = _json(path, 1, lines[0])
    if header.pop("kind", None) != "header":
        raise PagedlabError(f"{path} is not a pagedlab trace: its first line is no header.")
    if header.get("schema") not in READABLE:
        raise PagedlabError(
            f"{path} has trace schema {header.get('schema')!r}; this pagedlab reads schemas "
            f"{' and '.join(map(str, READABLE))}. Record it again with this version."
        )
    check_header(header, str(path))
    events = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            events.append(from_dict(_json(path, number, line)))
        except PagedlabError:
            raise
        except ValueError as error:
            raise PagedlabError(f"{path}, line {number}: {error}.") from error
    return Trace(header | {"live": False}, events)


def check_header(header: dict, name: str) -> None:
    """Raises PagedlabError, about the trace called ``name``, where its states could not be computed or shown."""
    config = header.get("config")
    if not isinstance(config, dict) or not all(
        type(config.get(k, 0)) is int and config.get(k, 0) >= least
        for k, least in (("num_blocks", 1), ("block_size", 1), ("num_cpu_blocks", 0))
    ):
        raise PagedlabError(
            f"{name} has a broken header: config must give num_blocks and block_size as positive numbers, and "
            "num_cpu_blocks, where it is there, as 0 or more."
        )
    slots = (config["num_blocks"] + config.get("num_cpu_blocks", 0)) * config["block_size"]
    if slots > MOST_SLOTS:
        raise PagedlabError(f"{name} has a broken header: {slots:,} slots are more than can be shown ({MOST_SLOTS:,}).")
    for key in ("engine", "device", "dtype", "date", "model"):
        if not isinstance(header.get(key), str | None):
            raise PagedlabError(f"{name} has a broken header: {key} is {header[key]!r}; it must be text.")
    if not isinstance(header.get("model_shape"), dict | None):
        raise PagedlabError(f"{name} has a broken header: model_shape is {header['model_shape']!r}, and no object.")


def _json(path: Path, number: int, line: str) -> dict:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):  # no JSON, numbers of thousands of digits, brackets in brackets in …
        raise PagedlabError(f"{path}, line {number}: not a JSON object (the file is cut off or damaged).") from None
    if not isinstance(data, dict):
        raise PagedlabError(f"{path}, line {number}: not a JSON object.")
    return data
