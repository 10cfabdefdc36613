"""Where do two runs part? The first place, and what each side did there."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError

MAX_TOKEN = 1 << 31


@dataclass(frozen=True)
class Difference:
    """``where``: the operation or step, in words. ``expected``: what the recording says, ``ours``: what we did."""

    where: str
    field: str
    expected: Any
    ours: Any
    them: str = "vLLM"

    def __str__(self) -> str:
        return (
            f"first difference at {self.where}, field {self.field!r}\n"
            f"  {self.them}: {_short(self.expected)}\n"
            f"  pagedlab: {_short(self.ours)}"
        )


def first_difference(where: str, expected: dict[str, Any], ours: dict[str, Any]) -> Difference | None:
    """The first field of ``ours`` whose value in ``expected`` is another; None where all agree.

    Dicts must agree in their order too: it is the order in which the scheduler went through the requests.
    """
    for field, value in ours.items():
        recorded = expected[field]
        if isinstance(value, dict) and isinstance(recorded, dict):
            same = list(value.items()) == list(recorded.items())
        else:
            same = type(value) is type(recorded) and value == recorded
        if not same:
            return Difference(where, field, recorded, value)
    return None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All JSON objects of a ``.jsonl`` or ``.jsonl.gz`` file. Raises PagedlabError where it cannot be read, and
    says at which line."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except FileNotFoundError:
        raise PagedlabError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise PagedlabError(f"{path} is a folder; give the files in it.") from None
    except (OSError, EOFError, ValueError, gzip.zlib.error) as error:
        raise PagedlabError(f"{path} cannot be read ({error}). Fetch or record it again.") from None
    lines = []
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], start=1):
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise PagedlabError(f"{path}, line {number}: not a JSON object (the file is cut off or damaged).")
        lines.append(data)
    if not lines:
        raise PagedlabError(f"{path} is empty; a recording has a header and at least one line more.")
    return lines


POOL_AND_LIMITS = dict(
    num_blocks=int, block_size=int, enable_caching=bool, max_num_seqs=int, max_num_batched_tokens=int, max_model_len=int
)  # what the header of every recorded run of a scheduler has


def need(data: dict[str, Any], where: str, **types: type) -> None:
    """Raise PagedlabError unless ``data`` has each named field with a value of that type (an int must be 0 or
    more; object: any value)."""
    for field, wanted in types.items():
        if field not in data:
            raise PagedlabError(f"{where} lacks the field {field!r}.")
        value = data[field]
        if wanted is object:
            continue
        if type(value) is not wanted or (wanted is int and value < 0):
            kind = {
                int: "a whole number of at least 0",
                list: "a list",
                str: "a string",
                bool: "true or false",
                dict: "an object",
            }[wanted]
            raise PagedlabError(f"{where}: {field!r} is {_short(value)}; it must be {kind}.")


def need_tokens(tokens: list[Any], where: str) -> None:
    """Raise PagedlabError unless ``tokens`` holds at least one token id, and nothing else."""
    if not tokens or not all(type(token) is int and 0 <= token < MAX_TOKEN for token in tokens):
        raise PagedlabError(f"{where}: tokens must be whole numbers from 0 to {MAX_TOKEN - 1}, at least one of them.")


def _short(value: Any, limit: int = 600) -> str:
    text = json.dumps(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
