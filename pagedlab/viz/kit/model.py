"""What a lab says of itself: its cursor, and its picture as a function of where the cursor is. No widget is needed for
that; see ``widget.py`` for how it is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from pagedlab.viz.kit.areas import Area
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.panes import Part
from pagedlab.viz.kit.predicting import Question
from pagedlab.viz.kit.strip import Strip, step_text
from pagedlab.viz.kit.svg import svg


@dataclass
class View:
    """The picture at the cursor, all of it made once.

    ``marks``: all but the strip of time; they must not depend on how many steps there are. A text mark with the id
    "step" gets its words from the front end. ``title``: the picture in one line, for a screen reader and as the static
    picture's name. ``words``: around the picture, each may be left out: "next" (the large button), "verdict" and
    "question" (beside it), "say" (to a screen reader; else the title), "over" (why there is no next step, at the last
    one).
    """

    marks: list[Mark]
    title: str
    words: dict[str, str] = field(default_factory=dict)


class LabModel:
    """A lab without its widget. ``selected`` is the other thing, besides the step, that its picture depends on (a
    request, a kind of chart), or None: a mark of class "chip" with the id "chip.NAME" selects NAME. A mark of class
    "askable" calls ``point`` when clicked.
    """

    NAME: ClassVar[str] = "Lab"
    SIZE: ClassVar[tuple[float, float]] = (960.0, 510.0)
    AREAS: ClassVar[tuple[Area, ...]] = ()  # for a narrow screen, see areas.py

    position: int  # how many steps are finished at the cursor
    num_steps: int  # how many are known
    selected: str | None = None
    live: bool = False  # does an engine make the steps that are not known yet?

    # ------------------------------------------------------------------------------------------ the picture

    def view(self) -> View:
        """The picture at the cursor. All that a lab has to say; the rest of this class has a default."""
        raise NotImplementedError

    def marks(self) -> list[Mark]:
        return self.view().marks

    def title(self) -> str:
        return self.view().title

    def words(self) -> dict[str, str]:
        return self.view().words

    def strip(self) -> Strip | None:
        return None

    def static_marks(self) -> list[Mark]:
        """The picture for paper: what the front end adds itself (strip, playhead, step) is in it."""
        return self._still(self.view())

    def _still(self, view: View) -> list[Mark]:
        label = step_text(self.position, self.num_steps, self.live, self.can_step)
        cls = f"text s12 {'bold' if 'past' in label else 'soft'} end"
        marks = [m._replace(text=label, cls=cls) if m.id == "step" else m for m in view.marks]
        strip = self.strip()
        return [*marks, *strip.marks, *strip.playhead(self.position, self.num_steps)] if strip else marks

    def svg(self, theme: str = "light") -> str:
        """The picture as an SVG document that needs nothing else."""
        view = self.view()
        return svg(self._still(view), self.SIZE, view.title, theme)

    def text(self) -> str:
        """The picture for a terminal."""
        return self.title()

    # ------------------------------------------------------------------------------------------- the cursor

    @property
    def can_step(self) -> bool:
        """Is there a step after the cursor's, known or not?"""
        return self.position < self.num_steps

    def move(self, position: int) -> None:
        """Put the cursor there; ``num_steps + 1`` makes a step that nobody knows yet, where that is possible."""
        self.position = max(0, min(position, self.num_steps))

    def choose(self, selected: str | None) -> None:
        """Select. Raises PagedlabError for what cannot be selected."""
        self.selected = selected

    def selections(self) -> list[str | None]:
        """All that can be selected."""
        return [self.selected]

    def rewind(self) -> None:
        """Go back to the first step that shows something."""
        self.move(min(1, self.num_steps))

    @property
    def shares(self) -> Any:
        """Labs that show the same object here are told when one of them has changed it, or moved a cursor that they
        share."""
        return self

    def read_on(self) -> bool:
        """Take in what happened outside since the last picture. True where what was shown may never have happened."""
        return False

    def grown(self) -> bool:
        """Is there anything that ``read_on`` would take in?"""
        return False

    def stamp(self, position: int) -> Any:
        """Changes when the picture of a known step does, so that no stale one is shown."""
        return 0

    def for_export(self) -> LabModel:
        """A lab of the same run with a cursor of its own, that needs no engine."""
        return self

    def for_page(self) -> dict[str, Any]:
        """What a page without a kernel is given besides the pictures; ``static/page.js`` knows what for."""
        return {}

    # ------------------------------------------------------------------------------------ what a learner does

    def asks(self) -> list[Question]:
        """What may be predicted at the cursor, where the next step is known: for a page without a kernel."""
        return []

    def name_of(self, id: str) -> str:
        """What an askable mark is called in a question: a block by its number."""
        return f"#{id.rpartition('.')[2]}"

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
