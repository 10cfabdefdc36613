"""The logs that come with the package, for chapter 15 and its exercise. ``tests/explain/logs/`` has more, and what is
to be read in each."""

from __future__ import annotations

from pathlib import Path

from pagedlab.errors import PagedlabError

FOLDER = Path(__file__).parent / "logs"


def shipped_log(name: str) -> Path:
    """The file of a log. Raises PagedlabError for a name that there is not."""
    known = sorted(file.stem for file in FOLDER.glob("*.log"))
    if name not in known:
        raise PagedlabError(f"There is no log {name!r} in the package; there are: {', '.join(known)}.")
    return FOLDER / f"{name}.log"
