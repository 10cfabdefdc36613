"""Two runs of the same workload, stepped together: a recording of vLLM (or a live one) beside our replay of it, the
pool of each, what each decided, field by field, and what is not the same.

It takes plain data, one dict a step and side, and knows nothing of where they come from; see
``pagedlab.parity.side_by_side`` for the fields.
"""

from __future__ import annotations

from typing import Any

from pagedlab.errors import PagedlabError, whole
from pagedlab.viz.kit import labels, panes
from pagedlab.viz.kit.badge import badge_text
from pagedlab.viz.kit.labels import plural
from pagedlab.viz.kit.model import View
from pagedlab.viz.kit.panes import Part
from pagedlab.viz.kit.predicting import Question, score
from pagedlab.viz.kit.strip import Strip, columns
from pagedlab.viz.kit.widget import Lab
from pagedlab.viz.side_by_side import layout

MOST_BUTTONS = 12  # of the pane that lists the steps that differ


def step_both(both: Any, *, names: tuple[str, str] = ("vLLM", "pagedlab"), step: int | None = None) -> SideBySideLab:
    """The lab of ``both``, a ``pagedlab.parity.SideBySide``: it has ``header``, ``theirs`` and ``ours`` (steps),
    ``trace`` (of our side), ``error`` and ``different(step)``. Of a live vLLM it also has ``driver``, ``can_step``,
    ``step()``, ``grown`` and ``read_on()``: then a step at the end is vLLM's own, and ours after it.

    ``names``: of the two sides. ``step``: where to open, counted from 1 (0 is before the first); default: the first
    step that differs, else the first. Raises PagedlabError for a step that is not recorded.
    """
    if not all(hasattr(both, name) for name in ("header", "theirs", "ours", "trace", "different")):
        raise PagedlabError(
            f"This lab cannot show a {type(both).__name__}; give it what "
            "pagedlab.parity.side_by_side.side_by_side(...) returns for a recording, or for a watched vLLM."
        )
    return SideBySideLab(both, names=names, step=step)


class SideBySideLab(Lab):
    """The lab. Its steps are vLLM's; where our side stopped before, the other goes on alone. ``live``: may it step?
    ``predictions``: the step that answers -> the block that was pointed at."""

    NAME = "Side by side"
    SIZE = layout.SIZE
    AREAS = layout.AREAS

    def __init__(
        self, both: Any, *, names: tuple[str, str] = ("vLLM", "pagedlab"), step: int | None = None, live: bool = True
    ) -> None:
        self.both, self.names = both, names
        driver = getattr(both, "driver", None)
        self.live = live and driver is not None and bool(driver.trace.header["live"])
        engine = both.header["engine"].removesuffix(" V1 Scheduler")
        theirs = badge_text(driver.trace.header, self.live) if driver else f"recorded · {engine}"
        self._badges = (theirs, badge_text(both.trace.header, live))
        self._read()
        self.rewind()
        self.position = self.position if step is None else whole(step, "step")
        if not 0 <= self.position <= self.num_steps:
            raise PagedlabError(f"There is no step {step}; recorded are 0 (before the first) to {self.num_steps}.")
        self._furthest = self.position
        self.predictions: dict[int, int] = {}
        super().__init__()

    def _read(self) -> None:
        both = self.both
        self._different = [both.different(i) for i in range(len(both.theirs))]
        self._tables = [layout.tables(both.theirs), layout.tables(both.ours)]
        self._hues = layout.hues([item["req"] for item in both.header["requests"]], both.theirs, self._tables[0])

    @property
    def num_steps(self) -> int:
        return len(self._different)

    @property
    def can_step(self) -> bool:
        return super().can_step or (self.live and self.both.can_step)

    @property
    def shares(self) -> Any:
        return self.both.driver.trace if self.live else self

    def grown(self) -> bool:
        return self.live and self.both.grown

    def read_on(self) -> bool:
        if self.grown():
            self.both.read_on()
            self._read()
        return False

    def move(self, position: int) -> None:
        if position > self.num_steps and self.can_step:
            self.both.step()
            self._read()
        super().move(position)

    @property
    def first_difference(self) -> int | None:
        """The first step, counted from 1, in which the two are not the same; None where there is none."""
        return next((i for i, fields in enumerate(self._different, start=1) if fields), None)

    @property
    def different(self) -> list[str]:
        """The fields of the step at the cursor that are not the same."""
        return self._different[self.position - 1] if self.position else []

    @property
    def counts(self) -> dict[str, int]:
        """In how many steps each field is not the same."""
        return {field: sum(field in fields for fields in self._different) for field in layout.FIELDS}

    def rewind(self) -> None:
        self.position = self.first_difference or min(1, self.num_steps)

    def view(self) -> View:
        self._furthest = max(self._furthest, self.position)
        scene = self._scene()
        title = f"{self.names[0]} and {self.names[1]} side by side, step {self.position}. {layout.verdict(scene)}"
        words = {
            "next": "Run one step of both" if self.live and self.position == self.num_steps else "One step of both",
            "verdict": self._answer() or self._verdict(),
            "question": self._question(),
            "say": f"{title} {layout.story(scene)}",
            "over": "All requests are done" if self.live else "End of the recording",
        }
        return View(layout.marks(scene), title, words)

    def strip(self) -> Strip:
        left, right, (top, height) = layout.LEFT, layout.RIGHT, layout.STRIP
        room = columns(self.num_steps, self.live) if self.live else max(1, self.num_steps)
        return Strip(left, top, right - left, height, room, layout.strip_marks(self._different, room))

    @property
    def score(self) -> tuple[int, int]:
        """Right predictions, and all that were decided."""
        seen = {step: block for step, block in self.predictions.items() if step <= self._furthest}
        decided = [block in self._handed_out(step) for step, block in seen.items()]
        return sum(decided), len(decided)

    def point(self, id: str) -> None:
        """A block of either side was clicked."""
        self.predict(int(id.rpartition(".")[2]))

    def predict(self, block_id: int) -> None:
        """Name a block that somebody gets in the next step, on both sides where they agree. The step answers, by the
        recording. Raises PagedlabError where nothing is handed out or it was seen already, and for an unknown block."""
        num_blocks = self.both.header["num_blocks"]
        if not 0 <= whole(block_id, "block_id") < num_blocks:
            raise PagedlabError(f"There is no block #{block_id}; the pool has #0 to #{num_blocks - 1}.")
        if self.position < self._furthest or not self._handed_out(self.position + 1):
            raise PagedlabError("There is nothing to predict here: the next step hands out no block, or it was seen.")
        self.predictions[self.position + 1] = block_id
        self.show()

    def _handed_out(self, step: int) -> dict[int, str]:
        """The blocks that requests get in this step of the recording, and who gets each; where blocks can be told
        apart."""
        if not 1 <= step <= self.num_steps or not layout.can_point(self.both.header["num_blocks"]):
            return {}
        before = self._tables[0][step - 2] if step > 1 else {}
        return {b: r for r, table in self._tables[0][step - 1].items() for b in table[len(before.get(r, ())) :]}

    def _verdict(self) -> str:
        return f"{self._total()}." if self._total() else f"No difference in {plural(self.num_steps, 'step')}."

    def asks(self) -> list[Question]:
        return [self._question_at(self.position + 1)] if self._handed_out(self.position + 1) else []

    def _question_at(self, step: int) -> Question:
        out = self._handed_out(step)
        return Question(
            "Which block will somebody get in the next step? Click one.",
            "You say {guess}. Take the step and see.",
            {f"{side}.block.{b}": f"✓ {who} got #{b}." for b, who in out.items() for side in (0, 1)},
            f"You said {{guess}}; it was {labels.listed((f'#{b}' for b in out), 4)}.",
        )

    def _question(self) -> str:
        guess = self.predictions.get(self.position + 1)
        return " ".join(question.ask if guess is None else question.after(f"#{guess}") for question in self.asks())

    def _answer(self) -> str:
        guess = self.predictions.get(self.position)
        if guess is None:
            return ""
        return f"{self._question_at(self.position).verdict(f'0.block.{guess}', f'#{guess}')} {score(*self.score)}"

    def text(self) -> str:
        """Both sides' fields for a terminal; "≠" is in front of those that differ."""
        scene = self._scene()
        lines = [f"Step {self.position} of {self.num_steps}: {layout.verdict(scene)} {layout.story(scene)}".rstrip()]
        lines += [self._answer() or self._verdict()]
        for field in layout.FIELDS if self.position else ():
            mine, other = layout.value(scene, 0, field), layout.value(scene, 1, field)
            sign = "≠" if field in self.different else " "
            lines += [f"{sign} {field:<10} {mine}"]
            lines += [f"  {'':<10} {other}"] if sign == "≠" else []
        return "\n".join(lines)

    def panes(self) -> dict[str, str]:
        return {"differences": "What differs"} if self.first_difference else {}

    def pane(self, id: str) -> list[Part]:
        rows = [
            (field, count, next(i for i, fields in enumerate(self._different, 1) if field in fields))
            for field, count in self.counts.items()
            if count
        ]
        steps = [i for i, fields in enumerate(self._different, 1) if fields]
        shown = [(f"step {i}", f"step {i}", i == self.position) for i in steps[:MOST_BUTTONS]]
        more = [panes.text(f"and {len(steps) - MOST_BUTTONS} more")] if len(steps) > MOST_BUTTONS else []
        return [
            panes.table(["field", "differs in steps", "first in step"], rows),
            panes.buttons(*shown),
            *more,
        ]

    def act(self, pane: str, name: str, values: dict[str, str]) -> None:
        self.seek(int(name.split(" ")[1]))

    def for_export(self) -> SideBySideLab:
        """In a saved page our side is a recording, too."""
        return SideBySideLab(self.both, names=self.names, step=self.position, live=False)

    def _total(self) -> str:
        total = sum(map(bool, self._different))
        return f"{total} of {plural(self.num_steps, 'step')} differ" if total else ""

    def _scene(self) -> layout.Scene:
        sides = (self.both.theirs, self.both.ours)
        now, before, held = [], [], []
        for steps, tables in zip(sides, self._tables, strict=True):
            i = self.position - 1
            now.append(steps[i] if 0 <= i < len(steps) else None)
            before.append(tables[i - 1] if 0 < i <= len(tables) else {})
            held.append(tables[i] if 0 <= i < len(tables) else {})
        return layout.Scene(
            self.both.header, self.position, self.names, self._badges, self._hues, now, before, held, self.different,
            self.counts, self._total(), self.both.error, bool(self._handed_out(self.position + 1)),
            self.predictions.get(self.position + 1),
        )  # fmt: skip
