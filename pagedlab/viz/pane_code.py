"""The code pane: the lines of the function that did what this step shows."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from typing import Any

from pagedlab.trace.events import Event
from pagedlab.viz import panes
from pagedlab.viz.panes import Part

AROUND = 2  # lines shown in front of the function and behind it
MOST = 60
# What a reader came to see comes first; steps and arrivals are only its frame.
_LAST = ("step_started", "step_ended", "request_arrived", "request_queued", "batch_received")


def choices(events: Sequence[Event]) -> list[tuple[str, str]]:
    """The kinds of event in a step with the function of each, every pair once."""
    pairs = dict.fromkeys((e.kind, e.source) for e in events if e.source)
    return sorted(pairs, key=lambda pair: pair[0] in _LAST)


def pane(events: Sequence[Event], chosen: str | None) -> list[Part]:
    """``chosen``: a name that ``choices`` made, "kind source"."""
    pairs = choices(events)
    if not pairs:
        return [panes.text("Nothing that happened in this step names its function.")]
    names = [" ".join(pair) for pair in pairs]
    chosen = chosen if chosen in names else names[0]
    shown = [(name, kind.replace("_", " "), name == chosen) for name, (kind, _) in zip(names, pairs, strict=True)]
    return [panes.buttons(*shown), source_part(chosen.split(" ", 1)[1])]


def source_part(source: str) -> Part:
    """``source``: "module:qualified.name", as events have it. Only pagedlab's own modules, and those that this process
    has loaded already (a learner's part), are looked into: a trace from elsewhere must not import anything."""
    module_name, _, qualname = source.partition(":")
    try:
        if module_name != "pagedlab" and not module_name.startswith("pagedlab."):
            thing: Any = sys.modules[module_name]
        else:
            thing = importlib.import_module(module_name)
        for name in qualname.split("."):
            thing = getattr(thing, name)
        lines, first = inspect.getsourcelines(inspect.unwrap(thing))
        whole = inspect.getsource(inspect.getmodule(thing)).splitlines() if module_name != "__main__" else []
    except (ImportError, AttributeError, KeyError, OSError, TypeError):
        return panes.text(f"{qualname} of {module_name} did it; its source is not here.")
    marked = range(first, first + min(len(lines), MOST))
    title = f"{module_name.replace('.', '/')}.py · {qualname} · line {first}"
    if not whole:  # a cell of a notebook
        return panes.code(title.replace("__main__.py", "this notebook"), first, [x.rstrip("\n") for x in lines], marked)
    start, stop = max(1, marked.start - AROUND), min(len(whole) + 1, marked.stop + AROUND)
    return panes.code(title, start, whole[start - 1 : stop - 1], marked)
