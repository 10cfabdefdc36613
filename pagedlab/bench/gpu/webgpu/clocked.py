"""An executor that keeps how long the engine was in it: the rest of a step is the engine's own Python."""

from __future__ import annotations

import time
from typing import Any

from pagedlab.executor.webgpu_executor import WebGPUExecutor


class ClockedExecutor(WebGPUExecutor):
    """``spent``: seconds of each call so far, by the name of what was called."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.spent: dict[str, list[float]] = {"submit": [], "collect": []}
        super().__init__(*arguments, **options)

    def submit(self, *arguments: Any) -> tuple:
        return self._clocked("submit", super().submit, *arguments)

    def collect(self, *arguments: Any) -> Any:
        return self._clocked("collect", super().collect, *arguments)

    def _clocked(self, name: str, call: Any, *arguments: Any) -> Any:
        start = time.perf_counter()
        result = call(*arguments)
        self.spent[name].append(time.perf_counter() - start)
        return result
