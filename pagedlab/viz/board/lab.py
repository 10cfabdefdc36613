"""The knobs lab: four knobs over a real run, on a card of the learner's choice.

A board with the card's memory and the runs so far, side by side; under it the memory map of the run that is chosen.
Each "Run" is the real engine serving the same workload, with a fraction of the pool that the card would have.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import ipywidgets

from pagedlab.errors import PagedlabError, whole
from pagedlab.viz.board import layout
from pagedlab.viz.board.run import FRACTION, MEASURES, KnobRun, checked_load, run_knobs, workload
from pagedlab.viz.kit.badge import badge_text
from pagedlab.viz.kit.export import save_html
from pagedlab.viz.kit.model import View
from pagedlab.viz.kit.progress import Progress
from pagedlab.viz.kit.strip import Strip
from pagedlab.viz.kit.widget import Lab, LabBox
from pagedlab.viz.memory.lab import MemoryMap

BLOCK_SIZES = (1, 4, 8, 16, 32, 64, 128)
SEQUENCES = (32, 64, 128, 256, 512, 1024)


def knobs(
    card: str = "L4",
    model: str = "Llama-3.1-8B",
    *,
    fraction: int = FRACTION,
    load: list[tuple[str, int]] | None = None,
    held: Any = None,
    **values: Any,
) -> KnobsLab:
    """The lab, with one run made.

    card: "T4", "L4", "A100", "H100", "H200" or "this machine". model: whose pool is computed for the card, one of
    ``pagedlab.engine.cards.MODELS``. fraction: this machine serves ``1/fraction`` of the card's pool, of its
    ``max_num_seqs`` and of its requests, with the tiny-random model. load: (prompt, output tokens) of each request
    here. held: ``pagedlab.engine.cards.Held``, what else the card holds. values: of the four knobs
    (``gpu_memory_utilization``, ``block_size``, ``enable_prefix_caching``, ``max_num_seqs``).

    Raises PagedlabError for an unknown card, model or knob, and for values that make no sense.
    """
    return KnobsLab(card, model, fraction=fraction, load=load, held=held, values=values)


class KnobBoard(Lab):
    """The board. Its steps are the runs: ``position`` is the chosen one's place, from 1 on. ``chosen`` is called with
    it when it changes. ``made_by``: the badge."""

    NAME = "Knobs"
    SIZE = layout.SIZE
    AREAS = layout.AREAS

    def __init__(
        self, runs: list[KnobRun], num_requests: int, made_by: str, chosen: Callable[[], None] = lambda: None
    ) -> None:
        self.runs, self.num_requests, self.made_by, self._chosen = runs, num_requests, made_by, chosen
        self.position = len(runs)
        super().__init__()

    @property
    def num_steps(self) -> int:
        return len(self.runs)

    @property
    def run(self) -> KnobRun | None:
        """The run that is chosen; None before the first."""
        return self.runs[self.position - 1] if self.position else None

    def move(self, position: int) -> None:
        before = self.position
        super().move(position)
        if self.position != before:
            self._chosen()

    def view(self) -> View:
        run = self.run
        label = "" if run is None else f"Run {run.number} on {run.plan.card} with {layout.settings(run)}. "
        marks = layout.marks(run, self.made_by, self.num_requests)
        words = {"next": "Next run", "verdict": "", "over": "No later run"}
        return View(marks, f"Knobs. {label}{layout.verdict(run)}", words)

    def strip(self) -> Strip:
        left, (top, bottom) = layout.TABLE_LEFT, layout.STRIP
        return Strip(left, top, layout.RIGHT - left, bottom - top, layout.COLUMNS, layout.strip_marks(self.runs))

    def text(self) -> str:
        """The runs for a terminal."""
        lines = [self.title()]
        for run in self.runs:
            figures = [f"{name} {layout.value(m, run.measured[m])}" for m, (name, _) in MEASURES.items() if run.ran]
            lines.append(f"run {run.number}: {layout.settings(run)}: {', '.join(figures) or run.summary}")
        return "\n".join(lines)

    def rewind(self) -> None:
        """It stays: the memory map below is the chosen run's."""

    def for_export(self) -> KnobBoard:
        dates = [run.llm.trace.header["date"][:10] for run in self.runs if run.ran]
        made_by = " · ".join([self.made_by.replace("live", "recorded", 1), *dates[-1:]])
        board = KnobBoard(self.runs, self.num_requests, made_by)
        board.position = self.position
        return board


class RunMap(MemoryMap):
    """A memory map of a run, which can be given another."""

    def __init__(self, run: KnobRun) -> None:
        self._run = run
        super().__init__(driver_of(run))

    def show_run(self, run: KnobRun) -> None:
        self._run, self._other = run, driver_of(run)
        self.other_run()
        self._other = None

    def view(self) -> View:
        """Where it opens, it says why there."""
        view, run = super().view(), self._run
        if self.position == run.opening and self.driver.trace is run.llm.trace and not view.words["verdict"]:
            view.words["verdict"] = f"Step {run.opening}: {run.why}."
        return view


def driver_of(run: KnobRun) -> Any:
    """A cursor over a run, at the step to look at first."""
    from pagedlab.engine import EngineDriver

    driver = EngineDriver(run.llm)
    driver.seek(run.opening)
    return driver


class KnobsLab(LabBox):
    """The lab. ``run(…)`` does what the button does; ``runs`` are those that are kept, ``board`` the picture of them,
    ``map`` the memory map of the chosen one (None where nothing ran)."""

    def __init__(self, card: str, model: str, *, fraction: int, load: Any, held: Any, values: dict[str, Any]) -> None:
        from pagedlab.engine import LLM
        from pagedlab.engine.cards import CARDS, HERE, MODELS

        self.fraction, self.held = whole(fraction, "fraction", 1), held
        self.load = workload() if load is None else checked_load(load)
        self._plan(card, model, values)  # refuses what makes no sense, before anything is loaded
        self._base = LLM("tiny-random", device="cpu", num_gpu_blocks_override=2)
        self._made = 0
        self.runs: list[KnobRun] = []
        self.map: RunMap | None = None
        made_by = badge_text(self._base.executor.describe(), True)
        self.board = KnobBoard(self.runs, len(self.load), made_by, self._chosen)
        self._controls = self._make_controls([*CARDS, HERE], list(MODELS), card, model, values)
        self._below = ipywidgets.VBox([])
        self.run(**values)
        super().__init__([*self._controls, self.board, self._below])

    # -------------------------------------------------------------------------------------------- for Python

    def run(self, card: str | None = None, model: str | None = None, **values: Any) -> KnobRun:
        """Run once more, with what is set and these changes; the controls follow. Keeps the last eight runs. Raises
        PagedlabError for what makes no sense."""
        settings = self.settings | values
        plan = self._plan(
            self._card.value if card is None else card, self._model.value if model is None else model, settings
        )
        self._set(plan)
        self._made += 1
        with _Progress(self._bar, len(self.load), alone=self._made == 1) as progress:
            run = run_knobs(
                self._made, plan, self._base, fraction=self.fraction, load=self.load, progress=progress
            )  # fmt: skip
        self.runs.append(run)
        if len(self.runs) > layout.COLUMNS:
            del self.runs[0]
            self.board.start_over()
        for column, kept in enumerate(self.runs, start=1):
            kept.column = column
        self.board.position = len(self.runs)
        self.board.show()
        self._chosen()
        return run

    @property
    def settings(self) -> dict[str, Any]:
        """What the four controls say."""
        values = {name: control.value for name, control in self._knobs.items()}
        # A slider in a browser says 0.9200000000000002.
        return values | {"gpu_memory_utilization": float(f"{values['gpu_memory_utilization']:.9g}")}

    def choose(self, number: int) -> None:
        """Show the run of that number. Raises PagedlabError where it is not kept."""
        places = {run.number: run.column for run in self.runs}
        if number not in list(places):
            raise PagedlabError(f"There is no run {number}; kept are: {', '.join(map(str, places))}.")
        self.board.seek(places[number])

    def chart(self, measure: str) -> Any:
        """A chart of one measure over the runs kept: "concurrency", "preemptions", "computed", "waste" or "table"."""
        from pagedlab.viz.charts import Chart

        if measure not in list(MEASURES):
            raise PagedlabError(f"There is no measure {measure!r}; there are: {', '.join(MEASURES)}.")
        name, unit = MEASURES[measure]
        first = self.runs[0]
        rows = [
            [f"{run.number}: {', '.join(layout.changes(run, first)) or run.plan.card}", run.measured[measure]]
            for run in self.runs
            if run.ran
        ]
        return Chart(["run", name], rows, title=name.capitalize(), unit=f"{unit}; measured here")

    def text(self) -> str:
        return self.board.text()

    def svg(self, theme: str = "light") -> str:
        """Board and memory map as one SVG document that needs nothing else."""
        parts = [self.board] + ([self.map] if self.map is not None and self.board.run and self.board.run.ran else [])
        height = sum(part.SIZE[1] for part in parts) + 12 * (len(parts) - 1)
        drawn, y = [], 0.0
        for part in parts:
            drawn.append(part.svg(theme).replace("<svg ", f'<svg y="{y:g}" ', 1))
            y += part.SIZE[1] + 12
        width, label = layout.SIZE[0], html.escape(self.board.title(), quote=True)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" role="img" aria-label="{label}">\n' + "\n".join(drawn) + "\n</svg>"
        )

    def save_html(self, path: str | PathLike) -> Path:
        """Write one self-contained page: the runs, and the memory map of the chosen one. Raises PagedlabError where the
        file cannot be written."""
        return save_html(self.board, path, *([self.map] if self.map is not None and self.board.run.ran else []))

    # ------------------------------------------------------------------------------------------- the controls

    def _make_controls(
        self, cards: list[str], models: list[str], card: str, model: str, values: dict[str, Any]
    ) -> list[Any]:
        wide = {"description_width": "190px"}
        size = {"width": "440px"}
        small = {"width": "300px"}
        self._card = ipywidgets.Dropdown(options=cards, value=card, description="card", layout=small)
        self._model = ipywidgets.Dropdown(options=models, value=model, description="model", layout=small)
        block_sizes = sorted({*BLOCK_SIZES, values.get("block_size", 16)})
        sequences = sorted({*SEQUENCES, values.get("max_num_seqs", 256)})
        share = values.get("gpu_memory_utilization", 0.92)
        self._knobs = {
            "gpu_memory_utilization": ipywidgets.FloatSlider(
                value=share, min=min(0.5, share), max=1.0, step=0.01,
                description="gpu_memory_utilization", style=wide, layout=size,
            ),
            "block_size": ipywidgets.SelectionSlider(
                options=block_sizes, value=values.get("block_size", 16), description="block_size",
                style=wide, layout=size,
            ),
            "enable_prefix_caching": ipywidgets.Checkbox(
                value=values.get("enable_prefix_caching", True), description="enable_prefix_caching",
                style=wide, layout=size,
            ),
            "max_num_seqs": ipywidgets.SelectionSlider(
                options=sequences, value=values.get("max_num_seqs", 256), description="max_num_seqs",
                style=wide, layout=size,
            ),
        }  # fmt: skip
        self._button = ipywidgets.Button(description="Run with these knobs", button_style="primary", layout=small)
        self._button.on_click(lambda _: self._clicked())
        self._bar = ipywidgets.IntProgress(value=0, min=0, max=len(self.load), layout={"width": "200px"})
        self._bar.layout.visibility = "hidden"
        self._notice = ipywidgets.HTML()
        for control in (self._card, self._model, *self._knobs.values()):
            control.observe(lambda _: self._foretell(), names="value")
        sliders = list(self._knobs.values())
        self._foretell()
        return [
            ipywidgets.HBox([self._card, self._model]),
            ipywidgets.HBox(sliders[:2]),
            ipywidgets.HBox(sliders[2:]),
            ipywidgets.HBox([self._button, self._bar, self._notice]),
        ]

    def _foretell(self) -> None:
        """What the pool will be, as soon as a knob is turned."""
        plan = self._plan(self._card.value, self._model.value, self.settings)
        self._notice.value = f'<span role="status">{html.escape(plan.summary)} (computed)</span>'

    def _clicked(self) -> None:
        self._button.disabled = True
        try:
            self.run()
        except PagedlabError as error:
            self._notice.value = f'<span role="alert">{html.escape(str(error))}</span>'
        finally:
            self._button.disabled = False

    def _plan(self, card: str, model: str, values: dict[str, Any]) -> Any:
        from pagedlab.engine.cards import plan_card
        from pagedlab.viz.board.run import KNOBS

        unknown = [name for name in values if name not in KNOBS]
        if unknown:
            raise PagedlabError(f"{', '.join(unknown)} is no knob of this lab; it has {', '.join(KNOBS)}.")
        return plan_card(card, model, held=self.held, **values)

    def _set(self, plan: Any) -> None:
        """Let the controls show what is run."""
        self._card.value, self._model.value = plan.card, plan.model
        for name, control in self._knobs.items():
            value = plan.knobs[name]
            if hasattr(control, "options") and value not in control.options:
                control.options = sorted({*control.options, value})
            elif hasattr(control, "min"):  # a slider would quietly show its least value instead
                control.min = min(control.min, value)
            control.value = value

    def _chosen(self) -> None:
        """The memory map follows the board."""
        run = self.board.run
        if run is None or not run.ran:
            self._below.children = ()
            return
        if self.map is None:
            self.map = RunMap(run)
        elif self.map.driver.trace is not run.llm.trace:
            self.map.show_run(run)
        self._below.children = (self.map,)


class _Progress:
    """A bar in the lab; and before there is a lab to see (``alone``), one in the cell or in the terminal."""

    def __init__(self, bar: Any, total: int, alone: bool) -> None:
        self._bar, self._outside = bar, Progress(total, "knobs", "request", cell=alone)

    def __enter__(self) -> Callable[[int, int], None]:
        self._bar.value = 0
        self._bar.layout.visibility = "visible"
        self._outside.__enter__()
        return self._step

    def _step(self, done: int, _: int) -> None:
        self._bar.value = done
        self._outside.reach(done)

    def __exit__(self, *error: Any) -> None:
        self._outside.__exit__(*error)
        self._bar.layout.visibility = "hidden"
