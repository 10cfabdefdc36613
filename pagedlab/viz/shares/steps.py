"""What both labs of this folder are: a cursor over the steps of a run, and what each step was made of."""

from __future__ import annotations

from typing import Any

from pagedlab.errors import PagedlabError, whole
from pagedlab.trace import TraceDriver
from pagedlab.viz.kit.badge import badge_text
from pagedlab.viz.kit.driver_lab import DriverLab
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.kit.model import View
from pagedlab.viz.kit.strip import Strip, columns
from pagedlab.viz.shares import layout, words
from pagedlab.viz.shares.run import ShareHistory


class StepsLab(DriverLab):
    """A lab of shares without its picture: a subclass says what it draws of a scene."""

    SIZE = layout.SIZE

    def __init__(self, driver: TraceDriver, *, step: int | None = None) -> None:
        header = driver.trace.header
        if header["config"].get("era") == "contiguous" or "attached" in header:
            raise PagedlabError("The lab shows the steps of an engine with blocks; this run tells of no such steps.")
        self.follow(driver, ShareHistory)
        if step is not None:
            driver.seek(whole(step, "step", 0))
        elif driver.position == 0:
            driver.step()
        self.read_on()
        self._furthest = driver.position
        super().__init__()

    @property
    def budget(self) -> int | None:
        """``max_num_batched_tokens`` of the run; None where its header does not tell."""
        return self.trace.header["config"].get("max_num_batched_tokens")

    def shares(self, step: int) -> dict[str, int]:
        """Tokens by request of a known step, in scheduling order. Raises PagedlabError for another."""
        if not 1 <= whole(step, "step") <= self.num_steps:
            raise PagedlabError(f"There is no step {step}; known are 1 to {self.num_steps}.")
        self.read_on_and_clear()
        return {r: share.num_tokens for r, share in self._history.steps[step - 1].shares.items()}

    def draw(self, scene: layout.Scene) -> list[Mark]:
        """The picture, all but the strip of time."""
        raise NotImplementedError

    def more_words(self) -> dict[str, str]:
        """Around the picture."""
        return {}

    def scene(self) -> layout.Scene:
        """At the cursor."""
        steps, badge = self._history.steps[: self.position], badge_text(self.trace.header, self.live)
        return layout.Scene(
            self._cursor.state(), self.trace.header, steps, self._history.largest, badge, self.live, self._history.ahead
        )

    def view(self) -> View:
        self._furthest = max(self._furthest, self.position)
        scene = self.scene()
        title = f"{self.NAME}, step {self.position}. {words.headlines(scene.step, scene.names, scene.budget)[0]}"
        texts = {
            "next": "Run one step",
            "say": " ".join([f"{title}.", *words.story(scene.step, scene.names)]),
            "over": "All requests are done" if self.live else "End of the recording",
        }
        return View(self.draw(scene), title, texts | self.more_words())

    def strip(self) -> Strip:
        return layout.strip(self._history.steps, columns(self.num_steps, self.live))

    def read_on(self) -> bool:
        if not super().read_on():
            return False
        self._furthest = 0
        return True

    def stamp(self, position: int) -> Any:
        return self.driver.num_events(position), self._history.largest
