"""The prefix lab: which blocks can be found again, what a prompt finds, and what that saves."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ipywidgets

from pagedlab.errors import PagedlabError
from pagedlab.trace import MemoryState, Trace, TraceDriver
from pagedlab.trace import events as ev
from pagedlab.viz.drivers import with_one_table
from pagedlab.viz.kit.badge import badge_text
from pagedlab.viz.kit.driver_lab import DriverLab
from pagedlab.viz.kit.history import Tally
from pagedlab.viz.kit.model import View
from pagedlab.viz.kit.strip import Strip, columns
from pagedlab.viz.kit.widget import LabBox
from pagedlab.viz.prefix import layout
from pagedlab.viz.prefix import words as wording
from pagedlab.viz.walk import Lookup, walk


def prefix_hits(
    what: Any, prompt: str | Sequence[int] | None = None, *, encode: Callable[[str], list[int]] | None = None
) -> PrefixHits:
    """The lab of ``what``: an ``LLM(..., record=True)``, a driver, a ``Trace`` (also one of ``pagedlab.attach``), or
    the path of a saved one.

    ``prompt``: the first to walk; text, or token ids. ``encode``: makes token ids of text; an engine brings its own,
    and without one the box takes token ids. Raises PagedlabError for what holds no trace, and for text that cannot be
    encoded.
    """
    owners = (what, getattr(what, "llm", None))  # an engine's, or that of a driver's engine
    tokenizer = next(filter(None, (getattr(owner, "tokenizer", None) for owner in owners)), None)
    encode = encode or (tokenizer.encode if tokenizer else None)
    return PrefixHits(PrefixLab(with_one_table(what), prompt, encode, getattr(tokenizer, "piece", None)))


class PrefixHits(LabBox):
    """The lab with its box for a prompt. What ``lab`` can do (``forward``, ``seek``, ``svg`` …) it can do too."""

    def __init__(self, lab: PrefixLab) -> None:
        self.lab = lab
        hint = "a prompt; Enter walks it" if lab.encode else "token ids, such as 12 7 31"
        self.box = ipywidgets.Text(
            value=lab.prompt_text, placeholder=hint, description="prompt", continuous_update=False,
            layout={"width": "720px"},
        )  # fmt: skip
        self._notice = ipywidgets.HTML()
        self.box.observe(lambda change: self._typed(change["new"]), names="value")
        super().__init__([lab, ipywidgets.HBox([self.box, self._notice])])

    def walk(self, prompt: str | Sequence[int]) -> list[Lookup]:
        """Walk another prompt (text or token ids). Raises PagedlabError for one that cannot be encoded."""
        return self.lab.walk(prompt)

    def _typed(self, text: str) -> None:
        try:
            self.lab.walk(text)
            self._notice.value = ""
        except PagedlabError as error:
            self._notice.value = f'<span role="alert">{html.escape(str(error))}</span>'

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "lab":
            raise AttributeError(name)
        return getattr(self.lab, name)


def num_hashed(state: MemoryState) -> int:
    """How many blocks have a hash."""
    return sum(prefix.copies for prefix in state.prefixes.values())


class PrefixLab(DriverLab):
    """The picture. ``selected`` says how far the prompt has been walked: "1" to the number of its blocks."""

    NAME = "Prefix hits"
    SIZE = layout.SIZE
    AREAS = layout.AREAS

    def __init__(
        self,
        driver: TraceDriver,
        prompt: str | Sequence[int] | None,
        encode: Callable[[str], list[int]] | None,
        piece: Callable[[int], str] | None = None,  # a token's text
    ) -> None:
        self.follow(driver, partial(Tally, of=num_hashed))
        self.encode, self._piece = encode, piece
        self.token_ids: list[int] = []
        self.prompt_text = prompt if isinstance(prompt, str) else " ".join(map(str, prompt or ()))
        self._restarted = False
        if driver.position == 0:
            driver.seek(driver.num_steps)
        if prompt is not None:
            self.token_ids = self._encoded(prompt)
        self.read_on()
        self.selected = str(len(self.lookups)) if self.lookups else None
        super().__init__()

    # -------------------------------------------------------------------------------------------- for Python

    @property
    def state(self) -> MemoryState:
        """Memory at the cursor, not to be changed."""
        return self._cursor.state()

    @property
    def lookups(self) -> list[Lookup]:
        """What each block of the prompt finds at the cursor."""
        return walk(self.state, self.token_ids, ours="engine" not in self.trace.header)  # "engine": of vLLM

    def walk(self, prompt: str | Sequence[int]) -> list[Lookup]:
        """Walk another prompt, and show it from its first block on; the chips go further. Raises PagedlabError for one
        that cannot be encoded."""
        self.token_ids = self._encoded(prompt)
        self._restarted = True
        self.selected = "1" if self.token_ids else None
        self.show()
        return self.lookups

    # ------------------------------------------------------------------------------------------ the picture

    def choose(self, selected: str | None) -> None:
        known = [str(i + 1) for i in range(len(self.lookups))]
        if selected is not None and selected not in known:
            raise PagedlabError(f"The prompt has {len(known)} blocks; there is no lookup {selected!r}.")
        self.selected = selected

    def for_export(self) -> PrefixLab:
        driver = TraceDriver(Trace(self.trace.header | {"live": False}, self.trace.events))
        lab = PrefixLab(driver, self.token_ids, self.encode, self._piece)
        lab.move(self.position)
        lab.choose(self.selected)
        return lab

    def selections(self) -> list[str | None]:
        return [str(i + 1) for i in range(len(self.lookups))] or [None]

    def read_on(self) -> bool:
        restarted, self._restarted = self._restarted, False
        return super().read_on() or restarted

    def view(self) -> View:
        scene = self._scene()
        title = wording.title(scene, self._step_text())
        question = ""
        if scene.lookups and not scene.ended:
            question = f"Is block {scene.looked_up} in memory? Choose it in your prompt above."
        go = "Run one step" if self.position == self.num_steps else "One step"
        words = {
            "next": "Next batch" if scene.attached else go,
            "question": question,
            "say": f"{title} {wording.story(scene)}",
            "over": "All requests are done" if self.live else "End of the recording",
        }
        return View(layout.marks(scene, self._step_text()), title, words)

    def strip(self) -> Strip:
        """How many blocks have a hash, step by step."""
        return layout.strip(self._history.values, columns(self.num_steps, self.live))

    def text(self) -> str:
        """The walk and the tree for a terminal."""
        from pagedlab.attach.show import tree_text

        scene = self._scene()
        lines = [wording.title(scene, self._step_text())]
        for lookup in scene.lookups:
            lines.append(
                f"  block {lookup.logical}: {scene.words(lookup.token_ids)[:40]}: {wording.verdict(lookup, scene)}"
            )
        return "\n".join([*lines, tree_text(self.state, 20)])

    def _step_text(self) -> str:
        return f"step {self.position}"

    def _encoded(self, prompt: str | Sequence[int]) -> list[int]:
        if not isinstance(prompt, str):
            return list(prompt)
        if self.encode is not None:
            return self.encode(prompt)
        try:
            return [int(word) for word in prompt.replace(",", " ").split()]
        except ValueError:
            raise PagedlabError(
                "This run has no tokenizer with it: give token ids, such as 12 7 31, or make the lab with encode=."
            ) from None

    def _scene(self) -> wording.Scene:
        header = self.trace.header
        looked_up = int(self.selected) if self.selected else 0
        attached = "attached" in header
        badge = f"vLLM's events · {header['attached']}" if attached else badge_text(header, self.live)
        return wording.Scene(
            self.state, self._cursor.events(), self.lookups, looked_up, badge, self.live, attached, self._costs(),
            self._pieces(),
        )  # fmt: skip

    def _pieces(self) -> dict[int, str]:
        pieces: dict[int, str] = {t: self._piece(t) for t in self.token_ids} if self._piece else {}
        for request in self.state.requests.values():
            pieces.update(zip(request.token_ids, request.texts, strict=True))
        return pieces

    def _costs(self) -> list[wording.Cost]:
        """What each request's prompt came to, up to the cursor."""
        waited: dict[str, float | None] = {}
        first: dict[str, float] = {}
        found: dict[str, int] = {}
        for event in self.trace.events[: self.driver.num_events(self.position)]:
            match event:
                case ev.RequestArrived():
                    waited[event.request_id] = 0.0
                case ev.RequestAdmitted():
                    found.setdefault(event.request_id, event.num_computed_tokens)
                case ev.TokenSampled() if event.request_id not in first:
                    first[event.request_id] = -1.0  # the step that it came in is not over
                case ev.StepEnded():
                    for request_id, seconds in waited.items():
                        if first.get(request_id, -1.0) < 0:
                            waited[request_id] = seconds + event.seconds
                            if request_id in first:
                                first[request_id] = waited[request_id]
        return [
            wording.Cost(r, self.state.requests[r].num_prompt_tokens, found[r], first.get(r) or None)
            for r in waited
            if r in found
        ]
