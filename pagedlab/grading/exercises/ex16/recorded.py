"""What ranks of real runs did, and which of them had which fault: made by ``tools/record_ranks.py``."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("recorded.json.gz")


@cache
def recordings() -> list[dict[str, Any]]:
    """Each is one step: ``fault`` (None, "deaf", "silent", "table", "heads"), of ``rank``; ``at`` which all-reduce;
    its requests, and what each rank did."""
    return json.loads(gzip.decompress(FILE.read_bytes()))["recordings"]


def with_fault(*faults: str | None) -> list[dict[str, Any]]:
    return [one for one in recordings() if one["fault"] in faults]
