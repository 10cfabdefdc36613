"""Where does a step's memory go when the step is over? It stays in the process, for the next one."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

# As in glibc's malloc.h. An allocation of the larger size or more goes back to the system as soon as it is freed, and
# so does what lies free at the heap's end, from the other size on.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
MOST_KEPT = 256 << 20  # bytes
LARGEST_KEPT = 32 << 20  # glibc allows no more


@cache
def keep_freed_memory() -> None:
    """Let glibc keep what a step frees, up to 256 MiB; nothing happens where malloc is another one.

    By itself it gives most of a prompt's intermediate results back layer by layer, and the system hands the same
    memory out again page by page, each page cleared: 95,000 pages in a prompt of 768 tokens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(TRIM_THRESHOLD, MOST_KEPT)
        mallopt(MMAP_THRESHOLD, LARGEST_KEPT)
