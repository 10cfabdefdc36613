"""Runs of the small random model, whose memory tells the facts: what memory does does not depend on the model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_one_at_a_time = threading.RLock()  # a class is graded in several threads
_loaded: list[Any] = []


@contextmanager
def on_one_core() -> Iterator[None]:
    """One run at a time, on one core: a model this small is quickest there."""
    import torch

    with _one_at_a_time:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def small_model() -> Any:
    """The small random model, loaded once: an ``LLM`` to make engines from."""
    from pagedlab.engine import LLM

    with _one_at_a_time:
        if not _loaded:
            _loaded.append(LLM("tiny-random", device="cpu", num_gpu_blocks_override=2))
        return _loaded[0]
