"""The recordings of vLLM that come with the package. ``tools/record_vllm.py`` makes them, and says what is in them."""

from __future__ import annotations

from pathlib import Path

from pagedlab.errors import PagedlabError

FOLDER = Path(__file__).parent / "recorded"


def recorded(name: str) -> Path:
    """The file of a recording: "vllm-sync", or "vllm-async" for the same service with asynchronous scheduling. Raises
    PagedlabError for a name that there is not."""
    known = sorted(file.name.removesuffix(".jsonl.gz") for file in FOLDER.glob("*.jsonl.gz"))
    if name not in known:
        raise PagedlabError(f"There is no recording {name!r} in the package; there are: {', '.join(known)}.")
    return FOLDER / f"{name}.jsonl.gz"
