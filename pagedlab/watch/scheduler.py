"""vLLM's own scheduler, telling what it does: ``vllm serve ... --scheduler-cls pagedlab.watch.WatchedScheduler``.

Where that setting is taken already, set PAGEDLAB_EVENTS to an address instead: the plugin that comes with pagedlab then
watches whatever scheduler vLLM is told to take.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from pagedlab.watch.publish import Publisher


@cache
def watched(base: type) -> type:
    """The scheduler class ``base``, watched from its making to its shutdown."""

    class Watched(base):
        pagedlab_publisher: Publisher | None = None  # that the class has it says that it is watched already

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.pagedlab_publisher = Publisher(self)

        def shutdown(self) -> None:
            self.pagedlab_publisher.close()
            super().shutdown()

    return Watched


class WatchedScheduler(Scheduler):
    """The scheduler that vLLM would have taken, watched: the asynchronous one where the configuration says so."""

    def __new__(cls, *args: Any, vllm_config: Any, **kwargs: Any) -> Any:
        base = AsyncScheduler if vllm_config.scheduler_config.async_scheduling else Scheduler
        return watched(base)(*args, vllm_config=vllm_config, **kwargs)
