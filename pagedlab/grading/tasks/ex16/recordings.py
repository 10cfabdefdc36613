"""Three steps of a real run on three ranks, one rank of each with a fault; made by ``tools/record_ranks.py``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("three.json.gz")


def three() -> dict[str, dict[str, Any]]:
    """By name. ``step`` has the block size and the requests of the step; ``heads``: K of the step's first token in
    layer 0, of each KV head, as a single process computes it; ``ranks``: for each rank the slots that it wrote, its
    keys of that token, its parts of all-reduces, and what it went on with."""
    return json.loads(gzip.decompress(FILE.read_bytes()))["recordings"]
