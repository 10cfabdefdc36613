"""The folder in which pagedlab keeps what it fetched or compiled once: the model's file, kernels for this processor."""

from __future__ import annotations

import os
from pathlib import Path

from pagedlab.errors import PagedlabError


def cache_folder() -> Path:
    """Where: PAGEDLAB_CACHE, else pagedlab in XDG_CACHE_HOME, else in the user's .cache.
    PagedlabError for a user who has no home, where one is needed, and for a home that depends on the working folder."""
    chosen = os.environ.get("PAGEDLAB_CACHE")
    folder = chosen or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "pagedlab")
    path = os.path.expanduser(folder)
    if path.startswith("~") or (folder.startswith("~/") and os.environ.get("HOME") == ""):
        raise PagedlabError(
            f"{folder} is nowhere, because there is no such home folder here (HOME is not set): set PAGEDLAB_CACHE to "
            "a folder that can be written"
        )
    if not chosen and not os.path.isabs(path):  # a notebook would look for it elsewhere than a terminal
        raise PagedlabError(
            f"{path} depends on the working folder, because HOME or XDG_CACHE_HOME is no absolute path: set it to one, "
            "or set PAGEDLAB_CACHE to a folder that can be written"
        )
    return Path(path)
