"""vLLM loads this in each of its processes (entry point ``vllm.general_plugins``).

Where PAGEDLAB_EVENTS is set to an address, whatever scheduler vLLM takes is watched: for servers whose
``--scheduler-cls`` is taken already.
"""

from __future__ import annotations

import os


def register() -> None:
    if not os.environ.get("PAGEDLAB_EVENTS"):
        return
    from vllm.config import SchedulerConfig

    choose = SchedulerConfig.get_scheduler_cls

    def get_scheduler_cls(self: SchedulerConfig) -> type:
        from pagedlab.watch.scheduler import WatchedScheduler, watched

        chosen = choose(self)
        already = chosen is WatchedScheduler or hasattr(chosen, "pagedlab_publisher")
        return chosen if already else watched(chosen)

    SchedulerConfig.get_scheduler_cls = get_scheduler_cls
