"""Events, recorder, replay, store: what happened to memory, and memory as it was at any moment of it."""

from pagedlab.trace.driver import TraceDriver
from pagedlab.trace.recorder import Recorder, Trace
from pagedlab.trace.replay import CachedPrefix, CpuPool, MemoryState, Region, RequestState, Slot, replay
from pagedlab.trace.shipped import recorded
from pagedlab.trace.store import load, save

__all__ = [
    "CachedPrefix", "CpuPool", "MemoryState", "Recorder", "Region", "RequestState", "Slot", "Trace", "TraceDriver",
    "load", "recorded", "replay", "save",
]
