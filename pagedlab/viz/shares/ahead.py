"""The lab of two lanes: what is planned while what runs, and what planning ahead changes."""

from __future__ import annotations

from typing import Any

from pagedlab.viz.drivers import as_driver, recorded
from pagedlab.viz.kit.marks import Mark
from pagedlab.viz.shares import lanes, layout, words
from pagedlab.viz.shares.steps import StepsLab


def plan_and_run(what: Any, *, step: int | None = None) -> LaneLab:
    """The lab of ``what``: an ``LLM(..., record=True)``, a driver, a ``Trace``, or the path of a saved one. Made for
    ``async_scheduling=True``; of a run step by step it shows that nothing overlaps.

    ``step``: where to open (default: after the first step, which a live engine makes). Raises PagedlabError for what
    holds no trace of steps, and for a step that is not recorded.
    """
    return LaneLab(as_driver(what), step=step)


class LaneLab(StepsLab):
    NAME = "Plan and run"
    AREAS = lanes.AREAS

    def draw(self, scene: layout.Scene) -> list[Mark]:
        return lanes.marks(scene)

    def text(self) -> str:
        """What planning ahead changed in the step, for a terminal."""
        self.read_on_and_clear()
        scene = self.scene()
        sentences = words.overlap(scene.steps, scene.names) if scene.ahead else words.story(scene.step, scene.names)
        return "\n".join([self.title(), *(f"  {sentence}" for sentence in sentences)])

    def for_export(self) -> LaneLab:
        return LaneLab(recorded(self.driver), step=self.position)
