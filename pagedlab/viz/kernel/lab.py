"""The kernel lab: the watched decode kernel over a live request's memory, block by block."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from pagedlab.errors import PagedlabError
from pagedlab.trace import Trace, load
from pagedlab.trace import events as ev
from pagedlab.viz.kernel import layout
from pagedlab.viz.kernel.layout import Scene, Walk
from pagedlab.viz.kit.badge import badge_text
from pagedlab.viz.kit.model import View
from pagedlab.viz.kit.predicting import Question, score
from pagedlab.viz.kit.widget import Lab


def kernel_walk(
    what: Any, request_id: str | None = None, *, layer: int = 0, head: int = 0, dialects: bool = False
) -> KernelLab:
    """The lab of one query of a live engine (``what`` is an ``LLM``): the newest token in memory of ``request_id``
    (default: the first request that runs), at ``layer``; ``head``: the query head to show first.

    Or of a ``Trace`` with kernel spans, or the path of a saved one: then ``head`` is the program, and what a span does
    not hold (numbers, addresses) is not shown.

    The kernel runs on the GPU that the model is on (through WebGPU it is the ladder's last one, in WGSL, over the
    engine's own buffers), else in Triton's interpreter in a process of its own (some seconds), and where there is no
    Triton, through WebGPU on a copy of the layer. ``dialects``: the ladder's last kernel in Triton and in WGSL, side by
    side, whatever the engine runs on.

    Raises PagedlabError for a request without memory, an unknown layer or head, a trace without spans, and where a
    kernel cannot run.
    """
    if isinstance(what, str | PathLike):
        what = load(Path(what))
    if isinstance(what, Trace):
        if dialects:
            raise PagedlabError("A trace holds no K and V to run a kernel on; for dialects=True give a live engine.")
        return KernelLab(recorded(what), head=head)
    from pagedlab.viz.kernel.live import live_walk

    return KernelLab(live_walk(what, request_id, layer, dialects=dialects), head=head)


def recorded(trace: Trace) -> Walk:
    """The kernel spans of a trace, each a program."""
    spans = [event for event in trace.events if isinstance(event, ev.KernelSpan)]
    if not spans:
        raise PagedlabError("This trace has no kernel spans: a watched kernel writes them, see pagedlab gpu-check.")
    header = trace.header
    size = header["config"]["block_size"]
    return Walk(
        name=spans[0].kernel,
        hue=0,
        layer=0,
        context=(1 + max(max(span.logical_blocks) for span in spans)) * size,
        block_size=size,
        num_blocks=header["config"]["num_blocks"],
        tile=0,
        group=1,
        spans=[list(zip(s.iterations, s.logical_blocks, s.physical_blocks, strict=True)) for s in spans],
        rows=[],
        base=0,
        strides=(0, 0, 0),
        element=0,
        difference=0.0,
        where=header["device"],
        clocks=[None if s.sm is None else (s.sm, s.start_ns, s.end_ns) for s in spans],
        badge=badge_text(header, live=False),
        live=False,
        programs=tuple(f"request {s.request}, KV head {s.kv_head}, part {s.split}" for s in spans),
    )


class KernelLab(Lab):
    """The lab. A step is one block read; ``selected`` is the query head, "0" and on."""

    NAME = "Kernel"
    SIZE = layout.SIZE
    AREAS = layout.AREAS

    def __init__(self, walk: Walk, *, head: int = 0) -> None:
        self.walk = walk
        self.AREAS = layout.areas(walk)
        self.position = self._furthest = 1
        self.guesses: dict[tuple[str, int], int] = {}  # (head, read) → the block that the learner pointed at for it
        self.choose(str(head))
        super().__init__()

    @property
    def num_steps(self) -> int:
        """How many blocks the program reads."""
        return max(map(len, self.walk.spans))

    @property
    def score(self) -> tuple[int, int]:
        """Right predictions, and all that were decided."""
        decided = [
            Scene(self.walk, int(head), read).now[2] == block
            for (head, read), block in self.guesses.items()
            if read <= self._furthest
        ]
        return sum(decided), len(decided)

    def choose(self, selected: str | None) -> None:
        if selected not in map(str, range(self.walk.num_heads)):
            what = "query head" if self.walk.rows else "program"
            raise PagedlabError(f"There is no {what} {selected!r}; there are 0 to {self.walk.num_heads - 1}.")
        self.selected = selected

    def point(self, id: str) -> None:
        self.predict(int(id.removeprefix("block.")))

    def predict(self, block_id: int) -> None:
        """Say which physical block is read next. The next step answers. Raises PagedlabError where that is known."""
        if not 0 <= block_id < self.walk.num_blocks:
            raise PagedlabError(f"There is no block #{block_id}; the pool has #0 to #{self.walk.num_blocks - 1}.")
        if self.position < self._furthest or self.position >= len(self._scene().span):
            raise PagedlabError("There is nothing to predict here: go to the last step that was seen.")
        self.guesses[self.selected, self.position + 1] = block_id
        self.show()

    def _scene(self) -> Scene:
        return Scene(self.walk, int(self.selected), self.position, self.guesses.get((self.selected, self.position + 1)))

    def for_export(self) -> KernelLab:
        """Without the guesses."""
        lab = KernelLab(self.walk, head=int(self.selected))
        lab.position = self.position
        return lab

    def for_page(self) -> dict[str, Any]:
        return {"again": self.walk.again} if self.walk.again else {}

    def selections(self) -> list[str | None]:
        return [str(head) for head in range(self.walk.num_heads)]

    def asks(self) -> list[Question]:
        return [self._question(self.position + 1)] if self.position < len(self._scene().span) else []

    def _question(self, read: int) -> Question:
        """Which block is the ``read``-th to be read?"""
        actual = Scene(self.walk, int(self.selected), read).now[2]
        return Question(
            "Which physical block is read next? Click it.",
            "You say {guess}.",
            {f"block.{actual}": f"✓ #{actual}, right."},
            f"You said {{guess}}; it was #{actual}.",
        )

    def view(self) -> View:
        self._furthest = max(self._furthest, self.position)
        scene = self._scene()
        verdict = question = ""
        if (guess := self.guesses.get((self.selected, self.position))) is not None:
            verdict = self._question(self.position).verdict(f"block.{guess}", f"#{guess}") + f" {score(*self.score)}"
        for open_question in self.asks():
            question = open_question.ask if scene.guess is None else open_question.after(f"#{scene.guess}")
        words = {"next": "Next block", "verdict": verdict, "question": question, "over": "All blocks are read"}
        return View(layout.marks(scene), layout.title(scene), words)

    def text(self) -> str:
        """The walk so far for a terminal."""
        scene = self._scene()
        lines = [layout.title(scene), self.walk.badge]
        for iteration, logical, physical in scene.span[: scene.read]:
            first, last = scene.tokens(logical)
            lines.append(f"  i={iteration}  logical {logical} → #{physical}  tokens {first} to {last}")
        if scene.now and self.walk.rows:
            lines += [f"  {what:<32} {how:<28} {number:>16}" for what, how, number in layout.address(scene)]
        for i, (scores, largest, total, rescale, _) in enumerate(scene.rows):
            shrink = "" if rescale is None else f"  rescale {rescale:.4f}"
            lines.append(f"  i={i}  {len(scores)} scores  max {largest:.4f}{shrink}  sum {total:.4f}")
            lines += [f"    {dialect:<7}{' '.join(cells)}" for dialect, cells in layout.written(scene, i)]
        return "\n".join(lines)
