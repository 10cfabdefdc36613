"""How long a lab lives: as long as it stands on the page, or somebody has it. With it goes its engine, and the model.

Left alone, it would live for ever: ipywidgets keeps every widget by its id, a widget's comm keeps it, and IPython keeps
all that cells have shown (``Out``, ``_``). Here the first two hold it by weak references, and the last lets go of it
when its cell runs again, or when it is closed. (It is not closed when its cell runs again: it may have a name by which
another cell shows it.)
"""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import ipywidgets
from IPython import get_ipython
from ipywidgets.widgets import widget as registry

from pagedlab.viz.kit.model import LabModel

_shown: dict[Any, list[ipywidgets.Widget]] = {}  # cell -> what it shows
_named: weakref.WeakSet[ipywidgets.Widget] = weakref.WeakSet()  # those that had a name of the user's
_had: set[int] = set()  # what of ours had a name after the last cell
_give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc keeps what is freed, for next time
_sweep = False  # is there anything that might be let go of?


def hold_loosely(widget: ipywidgets.Widget) -> None:
    """Let the widget, and all in it, live no longer than others have it. Once nobody has, it closes."""
    global _sweep
    _sweep = True
    for part in _parts(widget):
        known = getattr(registry, "_instances", {})  # of ipywidgets 8; where it is called otherwise, labs stay
        if part.comm is None or known.get(part.model_id) is not part:
            continue  # it is held so already
        known[part.model_id] = weakref.proxy(part)
        part.comm.on_msg(_Weakly(part._handle_msg))


class _Weakly:
    """A method that does not keep its object."""

    def __init__(self, method: Any) -> None:
        self._method = weakref.WeakMethod(method)

    def __call__(self, *args: Any) -> None:
        method = self._method()
        if method is not None:
            method(*args)


def shows(widget: ipywidgets.Widget) -> None:
    """The cell that runs shows the widget: it stays until that cell runs again."""
    shell = _shell()
    if shell is not None:
        here = _shown.setdefault(_cell(shell), [])
        if all(other is not widget for other in here):
            here.append(widget)


def forget(widget: ipywidgets.Widget) -> None:
    """It was closed: nothing keeps it but the names that the user gave it."""
    global _sweep
    if sys.is_finalizing():
        return
    _sweep = True
    for cell, widgets in list(_shown.items()):
        _shown[cell] = [other for other in widgets if other is not widget]
    if (shell := _shell()) is not None:
        _out_of_history(shell, [widget])


def before_cell(shell: Any) -> None:
    """What the cell showed when it ran before is no longer on the page."""
    global _sweep
    gone = _shown.pop(_cell(shell), [])
    if gone:
        _sweep = True
        _out_of_history(shell, gone)


def after_cell(shell: Any) -> None:
    """Take in what the cell did with names and boxes, and free what nobody has."""
    global _sweep
    for box in list(getattr(registry, "_instances", {}).values()):
        # A user's own box around a lab. (A proxy is one that is held loosely already.)
        if type(box) is not weakref.ProxyType and isinstance(box, ipywidgets.Box) and _has_lab(box):
            hold_loosely(box)
            shows(box)
    names = [value for name, value in shell.user_ns.items() if not name.startswith("_")]
    _look_at_names(names)
    ours = {id(value) for value in names if isinstance(value, ipywidgets.Widget) or _is_ours(value)}
    if _sweep or _had - ours:
        _sweep = False
        gc.collect()  # an engine and its lab refer to each other
        if _give_back is not None:
            _give_back(0)
    _had.clear()
    _had.update(ours)


def _look_at_names(names: list[Any]) -> None:
    """Forget those that were closed (a user's box, perhaps). Where cells have no ids (a client other than JupyterLab
    and VS Code), it cannot be told that a cell is the same and was only changed: there a lab that had a name stays no
    longer than the name."""
    for cell, widgets in list(_shown.items()):
        for widget in list(widgets):
            named = any(value is widget for value in names)
            if named:
                _named.add(widget)
            if widget.comm is None or (not named and widget in _named and not isinstance(cell, str)):
                forget(widget)


def _is_ours(value: Any) -> bool:
    return type(value).__module__.startswith("pagedlab.")


def _shell() -> Any:
    """The shell of a kernel, or None: without one nothing stands on a page."""
    shell = get_ipython()
    return shell if hasattr(shell, "get_parent") else None


def _cell(shell: Any) -> Any:
    """The running cell: its id, or where the front end gives none a tuple with its source."""
    parent = shell.get_parent() or {}
    return parent.get("metadata", {}).get("cellId") or (parent.get("content", {}).get("code"),)


def _out_of_history(shell: Any, gone: list[ipywidgets.Widget]) -> None:
    def is_gone(value: Any) -> bool:
        return any(value is widget for widget in gone)

    outputs = shell.history_manager.output_hist
    for number in [number for number, value in outputs.items() if is_gone(value)]:
        del outputs[number]
    for names in shell.all_ns_refs:
        for name in [name for name, value in names.items() if name.startswith("_") and is_gone(value)]:
            del names[name]
    for name in ("_", "__", "___"):
        if is_gone(getattr(shell.displayhook, name, None)):
            setattr(shell.displayhook, name, None)


def _parts(widget: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    """The widget and all in it."""
    yield widget
    for child in getattr(widget, "children", ()):
        yield from _parts(child)


def _has_lab(box: ipywidgets.Box) -> bool:
    return any(isinstance(part, LabModel) for part in _parts(box))
