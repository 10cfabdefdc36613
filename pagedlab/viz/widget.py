"""What every lab stands on: a cursor over steps, and a front end that is sent only what changes.

A lab says what its picture is (``marks``, ``title``, ``words``, ``strip``) and how its cursor moves; the rest is here.
The front end keeps every picture it was sent, so it moves through the steps it has seen without asking. It asks for the
others ("show"), says where it has gone ("at"), and passes on what was clicked ("point"). Nothing here waits for it: in
a notebook that runs without one, the lab is a value with a picture.
"""

from __future__ import annotations

import traceback
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import ipywidgets
import traitlets

from pagedlab.errors import PagedlabError, whole
from pagedlab.viz import lifetime
from pagedlab.viz.areas import Area
from pagedlab.viz.marks import Mark, Picture, diff, picture
from pagedlab.viz.panes import Part
from pagedlab.viz.predicting import Question
from pagedlab.viz.script import script
from pagedlab.viz.style import STATIC
from pagedlab.viz.svg import svg

KEPT_PICTURES = 32  # how many sent pictures are remembered, to send the next one as a difference from one of them


@dataclass
class Strip:
    """The strip of time: its marks, and where it lies. The front end draws the cursor on it and scrubs along it."""

    marks: list[Mark]
    left: float
    top: float
    width: float
    height: float
    columns: int  # steps that it has room for


class Lab(anywidget.AnyWidget):
    """A lab. A subclass has the methods of the first part, and calls ``super().__init__()`` when they can be called.

    ``selected`` is the other thing, besides the step, that its picture depends on (a request, a kind of chart), or
    None: a mark of class "chip" with the id "chip.NAME" selects NAME. A mark of class "askable" calls ``point`` when
    clicked.
    """

    NAME: ClassVar[str] = "Lab"
    SIZE: ClassVar[tuple[float, float]] = (960.0, 510.0)
    AREAS: ClassVar[tuple[Area, ...]] = ()  # for a narrow screen, see areas.py

    # As text: of a file anywidget would be told when it changes, and would keep every lab to tell it.
    _esm = script("lab.js")
    _css = (STATIC / "lab.css").read_text(encoding="utf-8")
    # Read by a front end when it opens (and when it comes back), never sent again: steps travel as messages.
    picture = traitlets.Dict().tag(sync=True, to_json=lambda _, lab: lab._message(whole=True))
    selected: str | None = None

    def __init__(self) -> None:
        # (position, selected) -> the stamp it was drawn with, and the picture
        self._sent: OrderedDict[tuple[int, str | None], tuple[Any, Picture]] = OrderedDict()
        self._strip: tuple[int, Picture] = (0, {})
        self._set_back = False  # since the last message
        self._told: tuple[int, str | None] | None = None  # where the front end is, as far as both sides know
        self._heard: int | None = None  # the number of the last message from there
        self._open_pane: str | None = None
        super().__init__()
        self.on_msg(self._receive)
        lifetime.hold_loosely(self)
        _keep_fresh(self)

    # -------------------------------------------------------------------------------- what a lab says of itself

    position: int  # how many steps are finished at the cursor
    num_steps: int  # how many are known

    def marks(self) -> list[Mark]:
        """The picture at the cursor, but for the strip of time. It must not depend on how many steps there are."""
        raise NotImplementedError

    def title(self) -> str:
        """The picture in one line, for a screen reader and as the static picture's name."""
        raise NotImplementedError

    def words(self) -> dict[str, str]:
        """Around the picture, each may be left out: ``next`` (the large button), ``verdict`` and ``question`` (beside
        it), ``say`` (to a screen reader; else the title), ``over`` (why there is no next step, at the last one)."""
        return {}

    def strip(self) -> Strip | None:
        return None

    def static_marks(self) -> list[Mark]:
        """The picture for paper: what the front end adds itself (strip, playhead) is in it."""
        strip = self.strip()
        return [*self.marks(), *(strip.marks if strip else [])]

    def text(self) -> str:
        """The picture for a terminal."""
        return self.title()

    @property
    def can_step(self) -> bool:
        """Is there a step after the cursor's, known or not?"""
        return self.position < self.num_steps

    @property
    def shares(self) -> Any:
        """Labs that show the same object here are told when one of them has changed it, or moved a cursor that they
        share."""
        return self

    def move(self, position: int) -> None:
        """Put the cursor there; ``num_steps + 1`` makes a step that nobody knows yet, where that is possible."""
        self.position = max(0, min(position, self.num_steps))

    def choose(self, selected: str | None) -> None:
        """Select. Raises PagedlabError for what cannot be selected."""
        self.selected = selected

    def point(self, id: str) -> None:
        """An askable mark was clicked. Raises PagedlabError where that means nothing."""

    def drag(self, what: str, onto: str) -> None:
        """A mark of class "grab" (the id ``what``) was dropped on the mark ``onto``."""

    def panes(self) -> dict[str, str]:
        """What can be unfolded under the picture now: id -> the button's words. Only what works."""
        return {}

    def pane(self, id: str) -> list[Part]:
        """What an open pane holds at the cursor, see ``panes.py``."""
        return []

    def act(self, pane: str, name: str, values: dict[str, str]) -> None:
        """A button or form of a pane was used."""

    def selections(self) -> list[str | None]:
        """All that can be selected."""
        return [self.selected]

    def rewind(self) -> None:
        """Go back to the first step that shows something."""
        self.move(min(1, self.num_steps))

    def asks(self) -> list[Question]:
        """What may be predicted at the cursor, where the next step is known: for a page without a kernel."""
        return []

    def name_of(self, id: str) -> str:
        """What an askable mark is called in a question: a block by its number."""
        return f"#{id.rpartition('.')[2]}"

    def for_export(self) -> Lab:
        """A lab of the same run with a cursor of its own, that needs no engine."""
        return self

    def read_on(self) -> bool:
        """Take in what happened outside since the last picture. True where what was shown may never have happened."""
        return False

    def stamp(self, position: int) -> Any:
        """Changes when the picture of a known step does, so that no stale one is shown."""
        return 0

    def grown(self) -> bool:
        """Is there anything that ``read_on`` would take in?"""
        return False

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
        return svg(self.static_marks(), self.SIZE, self.title(), theme)

    def save_html(self, path: str | PathLike) -> Path:
        """Write one self-contained page that steps through what is known of the run, without a kernel or a network.

        Raises PagedlabError where the file cannot be written.
        """
        from pagedlab.viz.export import save_html

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

    def show(self, have: tuple[int, str | None] | None = None) -> None:
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
        if self._told is not None and (self.grown() or self._told != (self.position, self.selected)):
            self.send(self._message(next(reversed(self._sent), None)))
            if self._open_pane is not None:
                self.show_pane(self.pane(self._open_pane))

    def read_on_and_clear(self) -> None:
        """Read on; where the run was set back, forget what was sent."""
        if self.read_on():
            self.start_over()

    def start_over(self) -> None:
        """Nothing that was sent is true any more (another run is shown)."""
        self._sent.clear()
        self._set_back = True

    def _message(self, have: tuple[int, str | None] | None = None, whole: bool = False) -> dict[str, Any]:
        """The picture at the cursor, as the difference from the one that the front end says it has (all of it where
        ``whole``).
        """
        self.read_on_and_clear()
        stale: list[Any] = ["all"] if self._set_back else []
        self._set_back = False
        marks = picture(self.marks())
        base = None if whole or have is None else self._sent.get(have, (0, None))[1]
        stamps = {position: self.stamp(position) for position, _ in self._sent}
        stale += sorted({k[0] for k, (stamp, _) in self._sent.items() if stamp != stamps[k[0]]})
        self._sent = OrderedDict((k, v) for k, v in self._sent.items() if k[0] not in stale)
        key = (self.position, self.selected)
        self._sent[key] = (self.stamp(self.position), marks)
        self._sent.move_to_end(key)
        self._told = key
        while len(self._sent) > KEPT_PICTURES:
            self._sent.popitem(last=False)
        words = {"next": "Next step", "verdict": "", "question": "", "say": self.title(), "over": "End"} | self.words()
        over = "" if self.can_step or self.position < self.num_steps else words["over"]
        return {
            "lab": {
                "name": self.NAME,
                "size": list(self.SIZE),
                **({"areas": [area._asdict() for area in self.AREAS]} if whole else {}),
            },
            "position": self.position,
            "selected": self.selected,
            "base": None if base is None else list(have),
            **diff(base or {}, marks),
            "stale": stale,
            **{name: words[name] for name in ("next", "verdict", "question", "say")},
            "run": {"steps": self.num_steps, "live": getattr(self, "live", False), "over": over},
            "strip": self._strip_message(whole),
            "panes": self.panes(),
            "heard": self._heard,
        }

    def _strip_message(self, whole: bool) -> dict[str, Any]:
        strip = self.strip()
        marks = picture(strip.marks) if strip else {}
        version, old = self._strip
        if marks != old:
            self._strip = (version + 1, marks)
        size = {name: getattr(strip, name) for name in ("left", "top", "width", "height", "columns")} if strip else None
        base = None if whole else version
        return {"version": self._strip[0], "base": base, **diff({} if whole else old, marks), "size": size}

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
                        self._told = at
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
            said = str(error)
            if not isinstance(error, PagedlabError):  # an engine's part failed, a learner's own perhaps
                misread = content.get("do") in ("point", "drag", "act") and _in_lab(error)
                said = NOT_UNDERSTOOD if misread else f"The step failed. {type(error).__name__}: {error}"
            self.send({"error": said, "heard": self._heard})


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
    here = str(Path(__file__).parent)
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
