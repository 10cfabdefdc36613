"""What every lab stands on: a widget whose front end is sent only what changes.

A lab says what its picture is and how its cursor moves (``model.py``); the rest is here and in ``messages.py``.
The front end keeps every picture it was sent, so it moves through the steps it has seen without asking. It asks for the
others ("show"), says where it has gone ("at"), and passes on what was clicked ("point"). Nothing here waits for it: in
a notebook that runs without one, the lab is a value with a picture.
"""

from __future__ import annotations

import traceback
import weakref
from os import PathLike
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import traitlets

from pagedlab.errors import PagedlabError, whole
from pagedlab.viz.kit import lifetime
from pagedlab.viz.kit.export import save_html
from pagedlab.viz.kit.messages import Have, Messages
from pagedlab.viz.kit.panes import Part
from pagedlab.viz.kit.script import script
from pagedlab.viz.kit.style import STATIC


class Lab(Messages, anywidget.AnyWidget):
    """A lab. A subclass has the methods of ``LabModel`` (at least ``view``, ``position`` and ``num_steps``), and calls
    ``super().__init__()`` when they can be called."""

    # As text: of a file anywidget would be told when it changes, and would keep every lab to tell it.
    _esm = script("lab.js")
    _css = (STATIC / "lab.css").read_text(encoding="utf-8")
    # Read by a front end when it opens (and when it comes back), never sent again: steps travel as messages.
    picture = traitlets.Dict().tag(sync=True, to_json=lambda _, lab: lab._message(whole=True))

    def __init__(self) -> None:
        self.start_messages()
        self._open_pane: str | None = None
        super().__init__()
        self.on_msg(self._receive)
        lifetime.hold_loosely(self)
        _keep_fresh(self)

    # ---------------------------------------------------------------------------------------------- for Python

    def forward(self, steps: int = 1) -> int:
        """Go on; where a live run ends, the engine runs. Returns how many steps were possible."""
        done, steps = 0, whole(steps, "steps")
        while done < steps and self.can_step:
            self.move(self.position + 1)
            done += 1
        self.show()
        return done

    def back(self, steps: int = 1) -> int:
        done = max(0, min(whole(steps, "steps"), self.position))
        self.move(self.position - done)
        self.show()
        return done

    def seek(self, position: int) -> None:
        """Jump to a known step. Raises PagedlabError for another."""
        position = whole(position, "A step")
        if not 0 <= position <= self.num_steps:
            raise PagedlabError(f"There is no step {position}; recorded are 0 to {self.num_steps}.")
        self.move(position)
        self.show()

    def select(self, selected: str) -> None:
        self.read_on_and_clear()  # it may have been queued just now
        self.choose(selected)
        self.show()

    def refresh(self) -> None:
        """Show what was added to the run since (a new prompt, say). A cell that ran does this by itself."""
        self._keep_up()

    def svg(self, theme: str = "light") -> str:
        """The picture as an SVG document that needs nothing else."""
        self.read_on_and_clear()
        return super().svg(theme)

    def save_html(self, path: str | PathLike) -> Path:
        """Write one self-contained page that steps through what is known of the run, without a kernel or a network.

        Raises PagedlabError where the file cannot be written.
        """
        return save_html(self, path)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict]:
        """The live widget, and for readers without one (GitHub, nbconvert, an unrun clone) the static picture.

        No HTML: programs that show a page would take it first, and those that clean it (GitHub) would leave nothing.
        """
        data, metadata = super()._repr_mimebundle_(**kwargs)
        lifetime.shows(self)
        return data | {"text/plain": self.text(), "image/svg+xml": self.svg()}, metadata

    def close(self) -> None:
        """Take it off the page, and let go of its run."""
        super().close()
        lifetime.forget(self)

    # ------------------------------------------------------------------------------------- to the front end

    def show(self, have: Have | None = None) -> None:
        """Send the picture at the cursor, as the difference from the one that the front end has."""
        if have is None and self._sent:
            have = next(reversed(self._sent))
        self.send(self._message(have))
        self._tell_others()

    def show_pane(self, parts: list[Part]) -> None:
        """Fill the open pane."""
        self.send({"pane": {"id": self._open_pane, "parts": parts}, "heard": self._heard})

    def _tell_others(self) -> None:
        """Other labs of the same run see that it grew, and those with the same cursor go where it is."""
        for lab in list(_open):
            if lab is not self and lab.shares is self.shares:
                lab._keep_up()

    def _keep_up(self) -> None:
        """Send what happened without the front end: the run grew, or somebody else moved the cursor."""
        if self._front_cursor is not None and (self.grown() or self._front_cursor != (self.position, self.selected)):
            self.send(self._message(next(reversed(self._sent), None)))
            if self._open_pane is not None:
                self.show_pane(self.pane(self._open_pane))

    def _receive(self, _: Any, content: dict[str, Any], buffers: list) -> None:
        content = content if isinstance(content, dict) else {}
        self._heard = content.get("n")
        try:
            _check_message(content)
            match content.get("do"):
                case "show":
                    self.read_on_and_clear()
                    if content["selected"] is not None:
                        self.choose(content["selected"])
                    self.move(int(content["position"]))
                    have = content.get("have")
                    self.show(tuple(have) if have else None)
                case "at":  # the front end has that picture: nothing is sent
                    self.choose(content["selected"])
                    self.move(min(int(content["position"]), self.num_steps))
                    at = (int(content["position"]), content["selected"])
                    stamp = self.stamp(self.position)  # going there may have run an engine that was set back
                    stale = self._set_back or self._sent.get(at, (stamp,))[0] != stamp
                    if stale or (self.position, self.selected) != at:
                        self.show()
                    else:
                        self._front_cursor = at
                        self._tell_others()
                case "point":
                    self.point(str(content["id"]))
                case "whole":
                    self.send(self._message(whole=True))
                case "drag":
                    self.drag(str(content["what"]), str(content["onto"]))
                case "pane":
                    self._open_pane = content["id"]
                case "act":
                    self.act(str(content["pane"]), str(content["name"]), content["values"])
            if self._open_pane is not None:
                self.show_pane(self.pane(self._open_pane))
        except Exception as error:  # shown where it happened: nobody sees a traceback of a click
            message = str(error)
            if not isinstance(error, PagedlabError):  # an engine's part failed, a learner's own perhaps
                misread = content.get("do") in ("point", "drag", "act") and _in_lab(error)
                message = NOT_UNDERSTOOD if misread else f"The step failed. {type(error).__name__}: {error}"
            self.send({"error": message, "heard": self._heard})


class LabBox(ipywidgets.VBox):
    """A lab and controls around it. A subclass has ``text()`` and ``svg()``, as the lab has."""

    def __init__(self, children: list[Any]) -> None:
        super().__init__(children)
        self.add_class("pagedlab-controls")
        lifetime.hold_loosely(self)

    def close(self) -> None:
        """Take it off the page, and let go of its run."""
        for child in self.children:
            child.close()
        super().close()
        lifetime.forget(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        data = super()._repr_mimebundle_(**kwargs)
        lifetime.shows(self)
        live, *rest = data if isinstance(data, tuple) else (data,)
        bundle = dict(live) | {"text/plain": self.text(), "image/svg+xml": self.svg()}
        return (bundle, *rest) if rest else bundle


NOT_UNDERSTOOD = "The page asked for something that this lab does not understand. Run the cell that shows it again."
_NAME = (str, type(None))
_MESSAGES: dict[str, dict[str, Any]] = {  # what the front end says, with what in it
    "show": {"position": int, "selected": _NAME},
    "at": {"position": int, "selected": _NAME},
    "point": {"id": str},
    "whole": {},
    "drag": {"what": str, "onto": str},
    "pane": {"id": _NAME},
    "act": {"pane": str, "name": str, "values": dict},
}


def _check_message(content: dict[str, Any]) -> None:
    """Raises PagedlabError for a message that no front end of ours sends."""
    fields = _MESSAGES.get(content["do"]) if isinstance(content.get("do"), str) else {} if not content else None
    good = fields is not None and all(
        name in content and isinstance(content[name], kind) and not isinstance(content[name], bool)
        for name, kind in fields.items()
    )
    have = content.get("have")
    if have is not None:  # the picture that it has: (position, selected)
        good = good and isinstance(have, list) and [*map(type, have)] in ([int, str], [int, type(None)])
    if not good:
        raise PagedlabError(NOT_UNDERSTOOD)


def _in_lab(error: Exception) -> bool:
    """Was it raised in a lab itself, which could not read a message, and not in an engine under it?"""
    here = str(Path(__file__).parents[1])
    return all(frame.f_code.co_filename.startswith(here) for frame, _ in traceback.walk_tb(error.__traceback__))


_open: weakref.WeakSet[Lab] = weakref.WeakSet()
_watching: set[int] = set()  # shells whose cells are watched


def _keep_fresh(lab: Lab) -> None:
    """After each cell, labs show what it did to their runs (a prompt added, a step run)."""
    _open.add(lab)
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None and id(shell) not in _watching:
        _watching.add(id(shell))
        shell.events.register("post_run_cell", lambda *_: [one._keep_up() for one in list(_open)])
        if hasattr(shell, "get_parent"):  # in a kernel
            shell.events.register("pre_run_cell", lambda *_: lifetime.before_cell(shell))
            shell.events.register("post_run_cell", lambda *_: lifetime.after_cell(shell))
