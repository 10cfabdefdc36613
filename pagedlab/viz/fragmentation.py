"""The fragmentation lab: one workload, three kinds of reservation and paging, on the same strip of slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace import MemoryState, Trace
from pagedlab.viz import fragmentation_layout as layout
from pagedlab.viz import fragmentation_words as words
from pagedlab.viz.fragmentation_run import KINDS, StripState, moments, serve
from pagedlab.viz.labels import plural
from pagedlab.viz.marks import Mark
from pagedlab.viz.strip import head
from pagedlab.viz.widget import Lab, Strip

# (prompt, output) tokens: small enough that every slot can be seen, and with the moment at which the oracle's holes
# would do in sum and are too short each.
LOAD = ((5, 3), (2, 5), (5, 3), (2, 13), (4, 8), (5, 4), (7, 10), (7, 7))


def fragmentation(
    load: Sequence[tuple[int, int]] | Mapping[str, Trace] = LOAD,
    *,
    num_slots: int = 64,
    max_model_len: int = 24,
    block_size: int = 4,
    select: str = "oracle",
    moment: int | None = None,
) -> FragmentationLab:
    """The lab of a workload: the (prompt, output) lengths of requests that all wait from the start, served by
    ``pagedlab.kv.serving`` in memories of ``num_slots`` slots each. Or of recorded traces of such runs, one for each of
    "max", "power_of_two", "oracle" and "paged".

    ``select``: whose headline to show first. ``moment``: where to open; default: the first at which somebody fits
    nowhere though the free slots would do in sum, else the first event. Raises PagedlabError for a workload that
    cannot be served, an unknown kind, or a moment that there is not.
    """
    live = not isinstance(load, Mapping)
    traces = serve(load, num_slots, max_model_len, block_size) if live else dict(load)
    return FragmentationLab(traces, live=live, select=select, moment=moment)


class FragmentationLab(Lab):
    """The lab. ``traces``: kind → trace, see :func:`fragmentation`; ``moments``: where its steps stand."""

    NAME = "Fragmentation"
    SIZE = layout.SIZE

    def __init__(
        self, traces: dict[str, Trace], *, live: bool, select: str = "oracle", moment: int | None = None
    ) -> None:
        if set(traces) != set(KINDS):
            raise PagedlabError(f"The lab needs a trace for each of {', '.join(KINDS)}; given: {', '.join(traces)}.")
        self.traces, self.live = traces, live
        self.moments = moments(traces)
        self._states = self._all_states()
        self._at = cache(self._strips_at)
        self.choose(select)
        self.position = self._opening() if moment is None else moment
        if not 0 <= self.position <= self.num_steps:
            raise PagedlabError(f"There is no moment {moment}; there are 0 to {self.num_steps}.")
        shares, counts = self._series()
        self._chart = {kind: layout.chart(shares, counts, kind) for kind in KINDS}
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
        if selected not in KINDS:
            raise PagedlabError(f"There is no memory {selected!r} here; there are: {', '.join(KINDS)}.")
        self.selected = selected

    def marks(self) -> list[Mark]:
        return [*layout.marks(self._scene()), *self._chart[self.selected]]

    def static_marks(self) -> list[Mark]:
        size = self.strip()
        x = size.left + size.width * self.position / size.columns
        return [*self.marks(), *head(x, size.top, size.height)]

    def strip(self) -> Strip:
        left, right, top, bottom = layout.CHART_LEFT, layout.CHART_RIGHT, layout.SHARES[0], layout.COUNTS[1]
        return Strip([], left, top, right - left, bottom - top, max(1, self.num_steps))

    def title(self) -> str:
        return layout.title(self._scene())

    def words(self) -> dict[str, str]:
        after = self.moments[self.position + 1] if self.position < self.num_steps else None
        told = [words.story(strip) for strip in self.strips.values()]
        return {
            "next": words.next_button(after),
            "verdict": f"{words.name(self.strips[self.selected])}: {told[KINDS.index(self.selected)]}"
            if told[KINDS.index(self.selected)]
            else "",
            "say": " ".join([layout.title(self._scene()) + ".", told[KINDS.index(self.selected)]]),
            "over": "Everybody was served",
        }

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
        badge = "live · allocator only" if self.live else f"recorded · allocator only · {date}"
        return layout.Scene(self.strips, moment, self.selected, self.position, self.num_steps, badge, self.live)

    def _all_states(self) -> dict[str, list[tuple[int, MemoryState]]]:
        """Each run replayed once, and kept at every moment: a step back must not replay from the start."""
        from copy import deepcopy

        kept: dict[str, list[tuple[int, MemoryState]]] = {}
        for kind, trace in self.traces.items():
            state, done, states = MemoryState.of(trace.header["config"]), 0, []
            for moment in self.moments:
                before = done
                for event in trace.events[done : moment.num_events[kind]]:
                    state.apply(event)
                done = moment.num_events[kind]
                states.append((before, deepcopy(state) if done > before or not states else states[-1][1]))
            kept[kind] = states
        return kept

    def _strips_at(self, position: int) -> dict[str, StripState]:
        strips = {}
        for kind, trace in self.traces.items():
            before, state = self._states[kind][position]
            events = trace.events[before : self.moments[position].num_events[kind]] if position else ()
            strips[kind] = StripState(kind, trace.header["config"], state, events)
        return strips

    def _series(self) -> tuple[dict[str, list[float]], dict[str, list[int]]]:
        """After each moment but the first: the share of slots that hold a token, and how many requests run."""
        shares: dict[str, list[float]] = {kind: [] for kind in KINDS}
        counts: dict[str, list[int]] = {kind: [] for kind in KINDS}
        for position in range(1, len(self.moments)):
            for kind, strip in self._at(position).items():
                shares[kind].append(strip.num("token") / strip.num_slots)
                counts[kind].append(len(strip.state.running))
        return shares, counts

    def _opening(self) -> int:
        """The first moment at which the selected memory loses to its holes; else the first event."""
        for position in range(1, len(self.moments)):
            wait = self._at(position)[self.selected].wait
            if wait and wait.scattered:
                return position
        return min(1, self.num_steps)
