"""Two runs of the same workload, stepped together: the pool of each, the queues, and what is not the same.

It takes plain data, one dict a step and side, and knows nothing of where they come from; see
``pagedlab.parity.side_by_side`` for the fields. Without a widget front end it is a picture of the step it opened at.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Any

import ipywidgets

from pagedlab.errors import PagedlabError
from pagedlab.viz import labels
from pagedlab.viz.labels import fit, listed, ordinal, plural, width
from pagedlab.viz.marks import Mark
from pagedlab.viz.pool_grid import pool_grid
from pagedlab.viz.svg import svg

SIZE = (960.0, 432.0)
LEFT, RIGHT = 24.0, 936.0
PANEL = 444.0  # width of each half
HALVES = (LEFT, RIGHT - PANEL)
TOP, POOL_HEIGHT = 76.0, 172.0
LINES = 272.0  # the first line of text under the pools
STRIP = (384.0, 22.0)


class SideBySideLab(ipywidgets.VBox):
    """The lab. ``both`` has ``header``, ``theirs``, ``ours`` (steps) and ``different(step)``; ``names``: of the two
    sides. ``step``: counted from 1. Raises PagedlabError for a step that is not recorded."""

    def __init__(self, both: Any, *, names: tuple[str, str] = ("vLLM", "pagedlab"), step: int = 1) -> None:
        self.both, self.names = both, names
        self.num_steps = len(both.theirs)
        if not 1 <= step <= self.num_steps:
            raise PagedlabError(f"There is no step {step}; recorded are 1 to {self.num_steps}.")
        self._different = [both.different(i) for i in range(self.num_steps)]
        self._tables = [_tables(both.theirs), _tables(both.ours)]
        self._hues = labels.hues(item["req"] for item in both.header["requests"])
        self._picture = ipywidgets.Image(format="svg+xml", layout={"max_width": f"{SIZE[0]:g}px"})
        self._slider = ipywidgets.IntSlider(
            value=step, min=1, max=self.num_steps, description="step", layout={"width": "420px"}
        )
        self._slider.observe(lambda change: self._show(), names="value")
        bar = [self._button("◀ back", -1), self._button("one step ▶", 1), self._slider]
        self._first = next((i + 1 for i, fields in enumerate(self._different) if fields), None)
        if self._first:
            jump = ipywidgets.Button(description="first difference")
            jump.on_click(lambda _: self.seek(self._first))
            bar.append(jump)
        self._said = ipywidgets.HTML()
        self._show()
        super().__init__([self._picture, ipywidgets.HBox(bar), self._said])

    @property
    def step(self) -> int:
        """The step that is shown, from 1 on."""
        return self._slider.value

    def seek(self, step: int) -> None:
        """Show another step; beyond the ends, the first or the last."""
        self._slider.value = max(1, min(step, self.num_steps))

    def text(self) -> str:
        """What the picture says, in a few lines."""
        return "\n".join(
            [f"Step {self.step} of {self.num_steps}: {self._verdict()}"]
            + [f"{name}: " + "; ".join(text for _, text in self._lines(side)) for side, name in enumerate(self.names)]
        )

    def svg(self, theme: str = "light") -> str:
        """The picture as an SVG document that needs nothing else."""
        return svg(self._marks(), SIZE, f"Two runs side by side, step {self.step}. {self._verdict()}", theme)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The live widget, and for readers without one the static picture (as an SVG: see ``viz/widget.py``)."""
        data = super()._repr_mimebundle_(**kwargs) or {}
        return data | {"text/plain": self.text(), "image/svg+xml": self.svg()}

    def _button(self, text: str, by: int) -> ipywidgets.Button:
        button = ipywidgets.Button(description=text, layout={"width": "110px"})
        button.on_click(lambda _: self.seek(self.step + by))
        return button

    def _show(self) -> None:
        self._picture.value = self.svg().encode()
        if hasattr(self, "_said"):
            self._said.value = f'<span role="status">{html.escape(self._verdict())}</span>'

    # -------------------------------------------------------------------------------------------- the words

    def _verdict(self) -> str:
        fields = self._different[self.step - 1]
        here = f"{plural(len(fields), 'field')} of this step not the same ({listed(fields)})"
        here = here if fields else "no difference"
        total = sum(map(bool, self._different))
        return f"{here}; {total} of {self.num_steps} steps differ."

    def _side(self, side: int) -> dict[str, Any] | None:
        """The step's dict, or None where this side has stopped."""
        steps = self.both.ours if side else self.both.theirs
        return steps[self.step - 1] if self.step <= len(steps) else None

    def _lines(self, side: int) -> list[tuple[tuple[str, ...], str]]:
        """(the fields that a line tells of, the line)."""
        step = self._side(side)
        if step is None:
            return [(("step",), f"stopped: {self.both.error or 'no such step'}")]
        done = [f"{r} ×{n}" for r, n in step["scheduled"].items()]
        came = [f"{r} new" + (f" ({n} tokens hit)" if n else "") for r, n in step["new"].items()]
        came += [f"{r} {word}" for word in ("resumed", "preempted", "finished") for r in step[word]]
        return [
            (("scheduled",), f"scheduled: {listed(done, 9) or 'nobody'}"),
            (("new", "resumed", "preempted", "finished"), listed(came, 5) or "nobody came or went"),
            (("running", "waiting"), f"then running: {listed(step['running'], 9) or 'nobody'}"),
            (("running", "waiting"), f"then waiting: {listed(step['waiting'], 9) or 'nobody'}"),
            (("free",), f"free: {' → '.join(f'#{b}' for b in step['free'])}" if step["free"] else "free: none"),
        ]

    # ---------------------------------------------------------------------------------------- the picture

    def _marks(self) -> Iterator[Mark]:
        different = self._different[self.step - 1]
        for side, x in enumerate(HALVES):
            name = self.names[side]
            yield Mark(f"{side}.name", (x, 36), "text s15 bold", name)
            left = x + width(name, 15, bold=True) + 12
            what = fit("recorded" if side == 0 else "replayed here, same workload", x + PANEL - left, 11)
            yield Mark(f"{side}.what", (left, 36), "text s11 soft", what)
            yield Mark(f"{side}.pool", (x, 62), "text s11 bold soft", "MEMORY POOL")
            yield from self._pool(side, x)
            for i, (fields, text) in enumerate(self._lines(side)):
                wrong = set(fields) & set(different)
                cls = "text s11 alarm bold" if wrong else "text s11" if i == 0 else "text s11 soft"
                text = fit(("≠ " if wrong else "") + text, PANEL, 11, bold=bool(wrong))
                yield Mark(f"{side}.line{i}", (x, LINES + 18 * i), cls, text)
        yield from self._strip()

    def _pool(self, side: int, left: float) -> Iterator[Mark]:
        """The blocks as they were when the step was scheduled; a dashed outline where the other side's is not so."""
        grid = pool_grid(self.both.header["num_blocks"], (left, TOP, PANEL, POOL_HEIGHT))
        mine, other = self._blocks(side), self._blocks(1 - side)
        for block_id in range(self.both.header["num_blocks"]):
            if grid.per_cell > 1:
                raise PagedlabError("A pool of so many blocks cannot be shown side by side; take a smaller recording.")
            x, y, w, h = grid.place(block_id)
            id, content = f"{side}.block.{block_id}", mine.get(block_id, "")
            owners = content if isinstance(content, tuple) else ()
            hue = f"c{self._hues[owners[0]]}" if owners else ""
            cls = f"card owned tiny {hue}" if owners else "card null tiny" if block_id == 0 else "card free tiny"
            said = f"held by {listed(owners)}" if owners else content or "null block"
            yield Mark(id, (x, y, w, h), cls, tip=f"{self.names[side]}, block #{block_id}: {said}")
            yield Mark(f"{id}.n", (x + 3, y + 10), "text mono s8 soft", str(block_id))
            if owners:
                text = owners[0] + (f"+{len(owners) - 1}" if len(owners) > 1 else "")
                yield Mark(f"{id}.full", (x + 3, y + h - 7, w - 6, 4), f"cell sharp {hue}")
                yield Mark(f"{id}.who", (x + w / 2, y + h / 2 + 5), f"text s11 bold mid hue {hue}", fit(text, w, 11))
            elif content:
                bold = "bold" if content == "next" else "soft"
                yield Mark(f"{id}.turn", (x + w / 2, y + h / 2 + 7), f"text s9 mid {bold}", content)
            if content != other.get(block_id, ""):
                yield Mark(f"{id}.differs", (x - 1, y - 1, w + 2, h + 2), "over guess")

    def _blocks(self, side: int) -> dict[int, tuple[str, ...] | str]:
        """What each block is: its owners, or its turn in the free queue."""
        step = self._side(side)
        if step is None:
            return {}
        content: dict[int, Any] = {b: "next" if i == 0 else ordinal(i + 1) for i, b in enumerate(step["free"])}
        for request_id, table in self._tables[side][self.step - 1].items():
            for block_id in dict.fromkeys(table):
                content[block_id] = (*content.get(block_id, ()), request_id)
        return content

    def _strip(self) -> Iterator[Mark]:
        top, height = STRIP
        yield Mark("strip.title", (LEFT, top - 8), "text s11 bold soft", "TIME")
        told = "each column a step, tall where the two differ; blocks that differ have a dashed outline"
        yield Mark("strip.what", (LEFT + 40, top - 8), "text s11 soft", told)
        yield Mark("strip.step", (RIGHT, top - 8), "text s12 soft end", f"step {self.step} of {self.num_steps}")
        w = (RIGHT - LEFT) / self.num_steps
        gap = 1.0 if w > 3 else 0.0
        for i, fields in enumerate(self._different):
            x, h = LEFT + i * w, height if fields else height * 0.5
            yield Mark(
                f"strip.{i}", (x, top + height - h, w - gap, h), "top playhead" if fields else "card track",
                tip=f"step {i + 1}: {listed(fields) or 'no difference'}",
            )  # fmt: skip
        x = LEFT + (self.step - 0.5) * w
        y = top + height + 4
        yield Mark("strip.at", (), "path ink", f"M{x - 5:.1f} {y + 10:g}H{x + 5:.1f}L{x:.1f} {y:g}Z")


def _tables(steps: Sequence[dict[str, Any]]) -> list[dict[str, list[int]]]:
    """Every running request's table after each step's ``schedule``; who was not scheduled keeps what it had."""
    tables: list[dict[str, list[int]]] = []
    held: dict[str, list[int]] = {}
    for step in steps:
        held = {r: table for r, table in held.items() if r not in step["preempted"]} | step["tables"]
        tables.append(dict(held))
        held = {r: table for r, table in held.items() if r in step["running"]}
    return tables
