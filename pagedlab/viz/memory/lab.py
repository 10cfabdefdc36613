"""The memory map: what a request sees, its block table and the pool, step by step. See ``widget.py`` for how it is
shown."""

from __future__ import annotations

from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace import MemoryState, TraceDriver
from pagedlab.trace import events as ev
from pagedlab.viz.drivers import as_driver, recorded
from pagedlab.viz.kit import panes
from pagedlab.viz.kit.driver_lab import DriverLab
from pagedlab.viz.kit.grid import pool_grid
from pagedlab.viz.kit.labels import quoted
from pagedlab.viz.kit.model import View
from pagedlab.viz.kit.narrator import next_step
from pagedlab.viz.kit.panes import Part
from pagedlab.viz.kit.predicting import Question, score
from pagedlab.viz.kit.scene import Scene
from pagedlab.viz.kit.strip import Strip, columns
from pagedlab.viz.memory import code as pane_code
from pagedlab.viz.memory import edit as pane_edit
from pagedlab.viz.memory import follow as pane_follow
from pagedlab.viz.memory import layout, strip
from pagedlab.viz.memory.places import SIZE
from pagedlab.viz.memory.text import draw
from pagedlab.viz.memory.words import story, title


def memory_map(what: Any, *, select: str | None = None, step: int | None = None) -> MemoryMap:
    """A memory map of ``what``: an ``LLM(..., record=True)``, a driver, a ``Trace``, or the path of a saved trace.

    A live engine that has prompts but has not run yet makes its first step, and a recording opens after its first, so
    that there is something to see; ``step`` opens elsewhere. ``select``: whose memory to show first (a recording then
    opens where that request is known). Raises PagedlabError for anything that holds no trace, a trace that contradicts
    itself, an unknown request or a step that is not recorded.
    """
    return MemoryMap(as_driver(what), select=select, step=step)


class MemoryMap(DriverLab):
    """The lab. Buttons, keys and clicks do what these methods do: ``forward``, ``back``, ``seek``, ``select``,
    ``predict``.
    """

    NAME = "Memory map"
    SIZE = SIZE
    AREAS = layout.AREAS

    def __init__(self, driver: TraceDriver, *, select: str | None = None, step: int | None = None) -> None:
        self.follow(driver)
        self.predictions: list[dict[str, Any]] = []  # step, request, predicted, actual, right
        if step is not None:
            driver.seek(step)
        elif driver.position == 0:
            driver.step()
        self.read_on()
        if step is None and select is not None:
            self._go_to_first(select)
        self._furthest = driver.position
        self.choose(self._who() if select is None else select)
        self._pane_values: dict[str, Any] = {"code": None, "follow": "", "find": "", "branch": []}  # by pane
        self._drawn: tuple[Any, ...] = ()  # of which reading, how wide; the strip
        self._other: TraceDriver | None = None  # the run that a branch left, or the branch
        super().__init__()

    # -------------------------------------------------------------------------------------------- for Python

    @property
    def state(self) -> MemoryState:
        """Memory at the cursor (a copy)."""
        return self.driver.state()

    @property
    def score(self) -> tuple[int, int]:
        """Right predictions, and all that were decided."""
        decided = [p for p in self.predictions if p["right"] is not None]
        return sum(p["right"] for p in decided), len(decided)

    def predict(self, block_id: int) -> None:
        """Say into which block the selected request's waiting token will go. The next step answers, see
        ``predictions``.

        A second prediction for the same step replaces the first. Raises PagedlabError where nothing is to be predicted
        or there is no such block.
        """
        if not 0 <= block_id < self._history.state.num_blocks:
            raise PagedlabError(
                f"There is no block #{block_id}; the pool has #0 to #{self._history.state.num_blocks - 1}."
            )
        if not self._can_predict(self._cursor.state()):
            raise PagedlabError(
                "There is nothing to predict here: go to the last step, and select a running request with one token "
                "waiting."
            )
        step = self.position + 1
        self.predictions = [p for p in self.predictions if (p["step"], p["request"]) != (step, self.selected)]
        self.predictions.append(
            {"step": step, "request": self.selected, "predicted": block_id, "actual": None, "right": None}
        )
        self.show()

    def text(self) -> str:
        """The picture for a terminal."""
        self.read_on_and_clear()
        return draw(
            self._cursor.state(),
            self._cursor.events(),
            self.trace.header,
            self.selected if self.selected in self._cursor.state().requests else None,
            position=self.position,
            num_steps=self.num_steps,
            live=self.live,
        )

    # ------------------------------------------------------------------------------------------ the picture

    def _who(self) -> str | None:
        """Whose memory to open with: the request that wrote most in this step, else one that runs or waits."""
        written: dict[str, int] = {}
        for e in self._cursor.events():
            if isinstance(e, ev.SlotWritten):
                written[e.request_id] = written.get(e.request_id, 0) + 1
        state = self._cursor.state()
        alive = [r for r in written if r in state.tables] or state.running or state.waiting or list(state.requests)[-1:]
        return max(alive, key=lambda r: written.get(r, 0)) if alive else None

    def _check_request(self, request_id: str | None) -> None:
        known = self._history.state.requests
        if request_id is not None and request_id not in list(known):
            raise PagedlabError(
                f"There is no request {request_id!r} in this run; there are: {', '.join(known) or 'none'}."
            )

    def _go_to_first(self, request_id: str) -> None:
        """Where the request is not known yet at the cursor, go on to the first step after which it is."""
        self._check_request(request_id)
        if request_id in self._cursor.state().requests:
            return
        known = next(
            i
            for i, e in enumerate(self.trace.events)
            if request_id in (getattr(e, "child_id", None), isinstance(e, ev.RequestArrived) and e.request_id)
        )
        steps = range(self.position, self.num_steps + 1)
        self.driver.seek(next(k for k in steps if self.driver.num_events(k) > known))

    def choose(self, selected: str | None) -> None:
        """Show this request's memory. Raises PagedlabError for an unknown one."""
        self._check_request(selected)
        self.selected = selected

    def move(self, position: int) -> None:
        super().move(position)
        self.read_on_and_clear()
        if self.selected is None:
            self.selected = self._who()

    def read_on(self) -> bool:
        """Take in what has happened since. Where the engine was set back, what was shown may never have happened."""
        if not super().read_on():
            return False
        self._furthest = 0
        if self.selected not in self._history.state.requests:
            self.selected = None
        return True

    def view(self) -> View:
        self._furthest = max(self._furthest, self.position)
        self._answer_predictions()
        scene = self._scene()  # knows nothing of how many steps there are by now: the front end writes that
        verdict, question = self._question(scene.state)
        words = {
            "next": next_step(scene.state),
            "verdict": verdict,
            "question": question,
            "say": " ".join((title(scene) + ".", *story(scene))),
            "over": "All requests are done" if self.live else "End of the recording",
        }
        return View(layout.marks(scene), title(scene, self.num_steps), words)

    def strip(self) -> Strip:
        of = self._history, self._history.reads, columns(self.num_steps, self.live)
        if of != self._drawn[:-1]:  # wherever the cursor stands, it looks the same
            self._drawn = *of, strip.drawn(self._history, of[-1])
        return self._drawn[-1]

    # ----------------------------------------------------------------------------------------- what is folded away

    def panes(self) -> dict[str, str]:
        found = {"code": "Code", "follow": "Follow a block", "find": "Find a token"}
        if self.live and self.driver.can_edit:
            if self._history.state.windows == (None,):  # one table a request
                found["grab"] = "Grab the arrow"
            if self._history.state.era == "paper":
                found["cow"] = "Copy-on-write"
            found["branch"] = "Branch here"
        return found

    def pane(self, id: str) -> list[Part]:
        state, values = self._cursor.state(), self._pane_values
        match id:
            case "code":
                return pane_code.pane(self._cursor.events(), values["code"])
            case "follow":
                return pane_follow.follow_pane(self.trace, state.num_blocks, values["follow"])
            case "find":
                return pane_follow.find_pane(self.trace, state, values["find"])
            case "grab":
                at_end = self.position == self.num_steps
                return pane_edit.grab_pane(state, self.selected, at_end, self.driver.can_undo)
            case "cow":
                return pane_edit.cow_pane(state, self.position == self.num_steps, self.driver.can_undo)
            case "branch":
                config, prompts = self.trace.header["config"], self.driver.prompts(self.position)
                other = self._other is not None
                return pane_edit.branch_pane(state, config, self.position, prompts, values["branch"], other)
        return []

    def act(self, pane: str, name: str, values: dict[str, str]) -> None:
        match pane, name.split(" ")[0]:
            case _, "step":
                self.seek(int(name.split(" ")[1]))
            case "code", _:
                self._pane_values["code"] = name
            case "follow", "block":
                self._pane_values["follow"] = values["block"]
            case "find", "token":
                self._pane_values["find"] = values["token"]
            case "grab", "remap":
                self.remap(*pane_edit.numbers(values))
            case _, "undo":
                self.undo()
            case "cow", "switch":
                self.copy_on_write(name == "switch on")
            case "branch", "branch":
                self._branch(pane_edit.changes(values))
            case "branch", "swap":
                self.other_run()

    def drag(self, what: str, onto: str) -> None:
        """A row of the table was dropped on a block."""
        if what.startswith("table.") and onto.startswith("block."):
            self.remap(int(what.split(".")[1]), int(onto.split(".")[1]))

    def remap(self, logical_block: int, block_id: int) -> None:
        """Point an entry of the selected request's table at another physical block: from the next step on the model
        reads what lies there. Everything from here on is marked as edited. Raises PagedlabError in the past, in a
        recording, and for an entry or a block that does not exist.
        """
        from pagedlab.engine import Remap

        self.driver.apply(Remap(self.selected, logical_block, block_id))
        self.show()

    def copy_on_write(self, on: bool) -> None:
        """Switch copy-on-write off, or on again: while it is off, whoever writes into a shared block overwrites what
        others have there, and the model goes on with that. Everything from here on is marked as edited. Raises
        PagedlabError in the past, in a recording, and in V1, which copies nothing.
        """
        from pagedlab.engine import CopyOnWrite

        self.driver.apply(CopyOnWrite(on))
        self.show()

    def undo(self) -> None:
        """Take the last edit back, and the steps since. Raises PagedlabError where there is none."""
        self.driver.undo()
        self.show()

    def branch(self, **changes: Any) -> MemoryMap:
        """A lab of another run that shares all steps up to the cursor, see ``EngineDriver.branch``: ``prompt``,
        ``replace``, ``victim``, or knobs. Raises PagedlabError for a recording.
        """
        driver = self.driver.branch(self.position, **changes)
        driver.trace.header["branched_at"] = self.position
        driver.seek(min(self.position, driver.num_steps))
        return MemoryMap(driver)

    def other_run(self) -> None:
        """Show the branch that was made last, or the run that it left."""
        if self._other is None:
            raise PagedlabError("There is no other run. Branch first.")
        other, self._other = self._other, self.driver
        self.follow(other)
        self._furthest = 0
        self.start_over()
        self.read_on()
        if self.selected not in self._history.state.requests:
            self.selected = None
        self.selected = self.selected or self._who()
        self.show()

    def _branch(self, arguments: dict[str, Any]) -> None:
        def progress(done: int, of: int) -> None:
            if done % 8 == 0:
                self.show_pane([panes.text(f"Running on … {done} of at most {of} steps")])

        at = self.position
        branch, self._pane_values["branch"] = pane_edit.run_on(self.driver, at, arguments, progress)
        branch.trace.header["branched_at"] = at
        self._other = branch

    def selections(self) -> list[str | None]:
        return list(self._history.state.requests) or [None]

    def for_export(self) -> MemoryMap:
        return MemoryMap(recorded(self.driver), select=self.selected, step=self.position)

    def point(self, id: str) -> None:
        """A block was clicked."""
        self.predict(int(id.removeprefix("block.")))

    def _scene(self) -> Scene:
        state = self._cursor.state()
        selected = self.selected if self.selected in state.requests else None
        return Scene(
            state, self._cursor.events(), self.trace.header, selected, self.position, self.position, self.live,
            self._guess(selected),
        )  # fmt: skip

    def _guess(self, selected: str | None) -> int | None:
        """Which block the learner expects the next step to write into."""
        here = [p for p in self.predictions if p["step"] == self.position + 1 and p["request"] == selected]
        return here[0]["predicted"] if here else None

    def _can_predict(self, state: MemoryState) -> bool:
        return self.position >= self._furthest and self.driver.can_step and _waits(state, self.selected)

    def rewind(self) -> None:
        super().rewind()
        self.selected = self._who()

    def asks(self) -> list[Question]:
        state, step = self._cursor.state(), self.position + 1
        if step > self.num_steps or not _waits(state, self.selected) or not _blocks_are_marks(state):
            return []
        actual = self._written(step, self.selected)
        return [] if actual is None else [_question(state, state.requests[self.selected].pending[0][1], actual)]

    def _written(self, step: int, request_id: str) -> int | None:
        """The block that the request wrote into in that step."""
        first, last = self.driver.num_events(step - 1), self.driver.num_events(step)
        written = (e for e in self.trace.events[first:last] if isinstance(e, ev.SlotWritten))
        return next((e.block_id for e in written if e.request_id == request_id), None)

    def _answer_predictions(self) -> None:
        for p in self.predictions:
            if p["right"] is None and p["actual"] is None and p["step"] <= self._furthest:
                p["actual"] = self._written(p["step"], p["request"])
                if p["actual"] is not None:
                    p["right"] = p["actual"] == p["predicted"]

    def _question(self, state: MemoryState) -> tuple[str, str]:
        """How the last prediction ended, and what is to be predicted now."""
        verdict = ""
        for p in self.predictions:
            if p["step"] == self.position and p["request"] == self.selected:
                if p["right"] is None:
                    verdict = f"You said #{p['predicted']}: nothing was written."
                else:
                    id = f"block.{p['predicted']}"
                    verdict = f"{_question(state, '', p['actual']).verdict(id, self.name_of(id))} {score(*self.score)}"
        if not self._can_predict(state) or not _blocks_are_marks(state):
            return verdict, ""
        guess = self._guess(self.selected)
        token = state.requests[self.selected].pending[0][1]
        question = _question(state, token, None)
        if guess is not None:
            return verdict, question.after(f"#{guess}")
        return verdict, f"And {quoted(token)}? Click a block." if verdict else question.ask


def _waits(state: MemoryState, request_id: str | None) -> bool:
    """Does the request write one token in the next step?"""
    return request_id in state.running and len(state.requests[request_id].pending) == 1


def _blocks_are_marks(state: MemoryState) -> bool:
    return pool_grid(state.num_blocks, (0, 0, 376, 206)).per_cell == 1


def _question(state: MemoryState, token: str, block_id: int | None) -> Question:
    """Where the K and V of a token will go; ``block_id``: where they went, once that is known. Of several groups of
    layers the first one's is asked for."""
    whose = "the K and V" if len(state.windows) == 1 else "layer 0's K and V"
    return Question(
        f"Where will {whose} of {quoted(token)} go? Click a block.",
        "You say {guess}. Take the step and see.",
        {f"block.{block_id}": f"✓ #{block_id}, right."},
        f"You said {{guess}}, it went into #{block_id}.",
    )
