"""The fragmentation lab: one workload, three kinds of reservation and paging, on the same strip of slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pagedlab.errors import PagedlabError, whole
from pagedlab.kv.contiguous import ContiguousAllocator
from pagedlab.trace import MemoryState, Trace, replay
from pagedlab.trace import events as ev
from pagedlab.viz.kit.labels import plural
from pagedlab.viz.kit.model import View
from pagedlab.viz.kit.predicting import Question, score
from pagedlab.viz.kit.strip import Strip
from pagedlab.viz.kit.widget import Lab
from pagedlab.viz.strips import layout, words
from pagedlab.viz.strips.run import KINDS, StripState, moments, serve

# (prompt, output) tokens: small enough that every slot can be seen, and with the moment at which the oracle's holes
# would do in sum and are too short each.
LOAD = ((5, 3), (2, 5), (5, 3), (2, 13), (4, 8), (5, 4), (7, 10), (7, 7))


def fragmentation(
    load: Sequence[tuple[int, ...]] | Mapping[str, Trace] = LOAD,
    *,
    num_slots: int = 64,
    max_model_len: int = 24,
    block_size: int = 4,
    select: str = "oracle",
    moment: int | None = None,
    allocator: Callable[[int], Any] = ContiguousAllocator,
) -> FragmentationLab:
    """The lab of a workload: the (prompt, output) lengths of requests, served by ``pagedlab.kv.serving`` in memories of
    ``num_slots`` slots each. All wait from the start; a third number lets one arrive after so many steps. Or of
    recorded traces of such runs, one for each of "max", "power_of_two", "oracle" and "paged".

    ``allocator``: makes the contiguous strips from their number of slots (a learner's will do). ``select``: whose
    headline to show first. ``moment``: where to open; default: the first at which somebody fits
    nowhere though the free slots would do in sum, else the first event. Raises PagedlabError for a workload that
    cannot be served, an unknown kind, or a moment that there is not.
    """
    live = not isinstance(load, Mapping)
    traces = serve(load, num_slots, max_model_len, block_size, allocator) if live else dict(load)
    return FragmentationLab(traces, live=live, select=select, moment=moment)


class FragmentationLab(Lab):
    """The lab. ``traces``: kind → trace, see :func:`fragmentation`; ``moments``: where its steps stand."""

    NAME = "Fragmentation"
    SIZE = layout.SIZE
    AREAS = layout.AREAS

    def __init__(
        self, traces: dict[str, Trace], *, live: bool, select: str = "oracle", moment: int | None = None
    ) -> None:
        if set(traces) != set(KINDS):
            raise PagedlabError(f"The lab needs a trace for each of {', '.join(KINDS)}; given: {', '.join(traces)}.")
        wrong = next((trace for trace in traces.values() if not isinstance(trace, Trace)), None)
        if wrong is not None:
            raise PagedlabError(f"{str(wrong)[:60]} is no trace; give a pagedlab.trace.Trace for each kind of memory.")
        self.traces, self.live = traces, live
        self.moments = moments(traces)
        self.predictions: dict[tuple[str, int], int] = {}  # (kind, moment that answers) -> slot
        self._at = lru_cache(maxsize=16)(self._strips_at)
        self.choose(select)
        shares, counts, self._opening = self._read_through()
        self.position = self._opening if moment is None else whole(moment, "moment")
        if not 0 <= self.position <= self.num_steps:
            raise PagedlabError(f"There is no moment {moment}; there are 0 to {self.num_steps}.")
        self._furthest = self.position
        steps = {kind: len(trace.step_ends()) for kind, trace in traces.items()}
        means = {kind: self._mean(of) for kind, of in shares.items()}
        columns = [(moment.step, column) for column, moment in enumerate(self.moments[1:])]
        starts = list({step: column for step, column in reversed(columns)}.values())[::-1]
        figures = shares, counts, means, steps, starts, self.strip()
        self._chart = {kind: layout.chart(*figures, kind) for kind in KINDS}
        super().__init__()

    @property
    def num_steps(self) -> int:
        """How many moments there are after the first."""
        return len(self.moments) - 1

    @property
    def strips(self) -> dict[str, StripState]:
        """Each kind of memory at the cursor."""
        return self._at(self.position)

    def choose(self, selected: str | None) -> None:
        if selected not in list(KINDS):
            raise PagedlabError(f"There is no memory {selected!r} here; there are: {', '.join(KINDS)}.")
        self.selected = selected

    def view(self) -> View:
        self._furthest = max(self._furthest, self.position)
        scene = self._scene()
        title = layout.title(scene)
        after = self.moments[self.position + 1] if self.position < self.num_steps else None
        texts = {
            "next": words.next_button(after),
            "verdict": self._verdict(),
            "question": self._question(),
            "say": " ".join([title.rstrip(".") + ".", words.story(scene.strip)]),
            "over": "Everybody was served",
        }
        return View([*layout.marks(scene), *self._chart[self.selected]], title, texts)

    def strip(self) -> Strip:
        return layout.strip(self.num_steps)

    @property
    def score(self) -> tuple[int, int]:
        """Right predictions, and all that were decided."""
        decided = [self._right(kind, moment) for kind, moment in self.predictions if moment <= self._furthest]
        return sum(decided), len(decided)

    def point(self, id: str) -> None:
        """A free slot was clicked."""
        self.predict(int(id.split(".")[1]))

    def predict(self, slot: int) -> None:
        """Say at which slot the next request's tokens will begin in the selected memory. Going on answers.

        Raises PagedlabError where nobody comes in next, or the slot is not free.
        """
        if not self._comes_next() or self.position < self._furthest:
            raise PagedlabError("There is nothing to predict here: nobody comes in next, or it was seen already.")
        if not any(hole.start <= slot < hole.end for hole in self.strips[self.selected].holes):
            raise PagedlabError(f"Slot {slot} is not free; point at a free one.")
        self.predictions[self.selected, self.position + 1] = slot
        self.show()

    def _comes_next(self) -> str | None:
        """Who comes in at the next event, first, in the selected memory."""
        if self.position == self.num_steps:
            return None
        events = self._at(self.position + 1)[self.selected].events
        return next((e.request_id for e in events if isinstance(e, ev.RequestAdmitted)), None)

    def _came(self, kind: str, moment: int) -> tuple[str, int, int]:
        """Who came in there first, and the first and last slot that count as the start of its place."""
        strip = self._at(moment)[kind]
        who = next(e.request_id for e in strip.events if isinstance(e, ev.RequestAdmitted))
        if strip.paged:
            block = next(
                e.block_ids[0] for e in strip.events if isinstance(e, ev.BlocksAllocated) and e.request_id == who
            )
            return who, (block - 1) * strip.block_size, block * strip.block_size - 1
        start = strip.state.regions[who].start
        return who, start, start

    def _right(self, kind: str, moment: int) -> bool:
        _, first, last = self._came(kind, moment)
        return first <= self.predictions[kind, moment] <= last

    def _question(self) -> str:
        guess = self.predictions.get((self.selected, self.position + 1))
        return " ".join(question.ask if guess is None else question.after(guess) for question in self.asks())

    def _verdict(self) -> str:
        guess = self.predictions.get((self.selected, self.position))
        if guess is None:
            return ""
        verdict = self._question_at(self.position).verdict(layout.slot_id(self.selected, guess), guess)
        return f"{verdict} {score(*self.score)}"

    def for_export(self) -> FragmentationLab:
        """Without the predictions."""
        return FragmentationLab(self.traces, live=self.live, select=self.selected, moment=self.position)

    def selections(self) -> list[str | None]:
        return list(KINDS)

    def rewind(self) -> None:
        self.move(self._opening)

    def name_of(self, id: str) -> str:
        return id.split(".")[1]

    def asks(self) -> list[Question]:
        return [self._question_at(self.position + 1)] if self._comes_next() else []

    def _question_at(self, moment: int) -> Question:
        """Where does the one who comes in at that moment begin in the selected memory?"""
        before, after = self._at(moment - 1)[self.selected], self._at(moment)[self.selected]
        who, first, last = self._came(self.selected, moment)
        begins = f"{who} begins in " + (f"block #{first // after.block_size + 1}" if after.paged else f"slot {first}")
        slots = range(first, last + 1)
        return Question(
            words.question(before, after, who),
            "You say slot {guess}. Go on and see.",
            {layout.slot_id(self.selected, slot): f"✓ {begins}." for slot in slots},
            f"You said slot {{guess}}; {begins}.",
        )

    def text(self) -> str:
        """The strips for a terminal: letters hold a token, "+" will be written, "-" never will, "." is free and "!"
        free but of no use to the one who waits."""
        lines = [layout.title(self._scene())]
        for strip in self.strips.values():
            lost = "!" if strip.wait and strip.wait.scattered else "."
            signs = {"reserved": "+", "internal": "-", "free": lost}
            cells = "".join(signs.get(span.what, span.owner[:1]) * span.length for span in strip.spans)
            running = plural(len(strip.state.running), "request")
            lines.append(f"{words.name(strip)}: {running}, {strip.num('token')} of {strip.num_slots} slots hold tokens")
            lines += [f"  {cells[i : i + 76]}" for i in range(0, len(cells), 76)]
        return "\n".join(lines)

    # ------------------------------------------------------------------------------------------------ the runs

    def _scene(self) -> layout.Scene:
        moment = self.moments[self.position]
        date = next(iter(self.traces.values())).header["date"][:10]
        badge = "live · no model" if self.live else f"recorded · no model · {date}"
        guess = self.predictions.get((self.selected, self.position + 1))
        asking = self._comes_next() is not None
        return layout.Scene(
            self.strips, moment, self.selected, self.position, self.num_steps, badge, self.live,
            self.moments[-1].step, asking, guess,
        )  # fmt: skip

    def _strips_at(self, position: int) -> dict[str, StripState]:
        strips = {}
        for kind, trace in self.traces.items():
            events = self._events(kind, position) if position else ()
            state = replay(trace, self.moments[position].num_events[kind])
            strips[kind] = StripState(kind, trace.header["config"], state, events)
        return strips

    def _events(self, kind: str, position: int) -> list[ev.Event]:
        """What happened in one kind of memory between the moment before and this one."""
        first, last = (self.moments[p].num_events[kind] for p in (position - 1, position))
        return self.traces[kind].events[first:last]

    def _mean(self, shares: list[float]) -> float:
        """Over the run's steps, each taken when its tokens are written and nobody has given back yet: as
        ``ServedStep.account`` does."""
        written = [share for moment, share in zip(self.moments[1:], shares, strict=False) if moment.phase == "tokens"]
        return sum(written) / max(1, len(written))

    def _read_through(self) -> tuple[dict[str, list[float]], dict[str, list[int]], int]:
        """After each moment but the first, until its run is over: the share of slots that hold a token, and how many
        requests run. And the first moment at which the selected memory loses to its holes (else the first event).
        """
        shares: dict[str, list[float]] = {}
        counts: dict[str, list[int]] = {}
        opening = min(1, self.num_steps)
        for kind, trace in self.traces.items():
            shares[kind], counts[kind], found = [], [], False
            state = MemoryState.of(trace.header["config"])
            for event in trace.events[: self.moments[0].num_events[kind]]:
                state.apply(event)
            for position in range(1, len(self.moments)):
                for event in self._events(kind, position):
                    state.apply(event)
                if state.step < self.moments[position].step:
                    break  # it had fewer steps than others
                strip = StripState(kind, trace.header["config"], state, ())
                shares[kind].append(strip.num("token") / strip.num_slots)
                counts[kind].append(len(state.running))
                if kind == self.selected and not found and strip.wait and strip.wait.scattered:
                    found, opening = True, position
        return shares, counts, opening
