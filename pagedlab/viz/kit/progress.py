"""A bar for what takes longer than a second, that leaves nothing behind: no line in the terminal, and in a notebook
neither a bar nor the red box of what was written to stderr."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

PATIENCE = 1.0  # seconds before it shows


class Progress:
    """``total`` steps of ``what`` (None: how far it is cannot be told, so it shows at once). ``cell``: False where a
    notebook has another place for it."""

    def __init__(self, total: int | None, what: str, unit: str = "", cell: bool = True) -> None:
        from IPython import get_ipython
        from tqdm import tqdm

        in_notebook = hasattr(get_ipython(), "kernel")
        self._total, self._what, self._unit, self._done = total, what, unit, 0
        self._in_cell = cell and in_notebook
        self._handle: Any = None  # of what stands in the cell
        self._terminal = tqdm(
            total=total, unit=unit or "it", desc=what, delay=PATIENCE if total else 0, leave=False, file=sys.stderr,
            disable=in_notebook,
        )  # fmt: skip

    def __enter__(self) -> Progress:
        self._started = time.monotonic()
        if self._total is None and self._in_cell:
            self._write(f"<progress></progress> {html.escape(self._what)}")
        return self

    def reach(self, done: int) -> None:
        """So many are done by now."""
        if done == self._done:
            return
        self._terminal.update(done - self._done)
        self._done = done
        if self._in_cell and time.monotonic() - self._started > PATIENCE:
            bar = f'<progress max="{self._total}" value="{done}"></progress>'
            self._write(f"{bar} {done} of {self._total} {html.escape(self._unit)}s")

    def _write(self, text: str) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display({"text/html": text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/html": text}, raw=True)

    def __exit__(self, *_: Any) -> None:
        self._terminal.close()
        if self._handle is not None:
            self._write("")
