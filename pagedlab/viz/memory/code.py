"""The code pane: the function that did what this step shows, and in it the lines that did it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from typing import Any

from pagedlab.trace.events import Event
from pagedlab.viz.kit import panes
from pagedlab.viz.kit.panes import Part
from pagedlab.viz.memory.code_lines import doing

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
    kind, source = chosen.split(" ", 1)
    return [panes.buttons(*shown), source_part(source, kind)]


def source_part(source: str, kind: str) -> Part:
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
        named = inspect.unwrap(thing)
        found, marked = doing(named, kind)
        lines, first = inspect.getsourcelines(found)
    except (ImportError, AttributeError, KeyError, OSError, TypeError, SyntaxError):
        return panes.text(f"{qualname} of {module_name} did it; its source is not here.")
    file = "this notebook" if found.__module__ == "__main__" else found.__module__.replace(".", "/") + ".py"
    by = "" if found is named else f", called by {qualname}"
    which = f"line {marked[0]}" if marked else f"line {first} on (which of its lines did it is not known)"
    title = f"{file} · {found.__qualname__}{by} · {which}"
    start, last = first, first + len(lines) - 1
    own = range(first, last + 1)
    if found.__module__ != "__main__":  # of a cell only the function itself is known
        whole = inspect.getsource(inspect.getmodule(found)).splitlines()
        start, last = max(1, start - AROUND), min(len(whole), last + AROUND)
        lines = whole[start - 1 : last]
    if len(lines) > MOST:  # a window around what did it
        middle = (marked[0] if marked else first) - start
        skip = max(0, min(middle - MOST // 3, len(lines) - MOST))
        start, lines = start + skip, lines[skip : skip + MOST]
    return panes.code(title, start, [line.rstrip("\n") for line in lines], marked or own)
