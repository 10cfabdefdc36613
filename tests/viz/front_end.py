"""A front end without a browser, and small engines for it."""

from __future__ import annotations

import json
import re

from runs import patched

from pagedlab.engine import LLM, SamplingParams
from pagedlab.viz.kit.strip import columns as strip_columns
from pagedlab.viz.memory import layout as memory_layout
from pagedlab.viz.memory import strip
from pagedlab.viz.memory.lab import MemoryMap


class FrontEnd:
    """What lab.js does with messages, in few lines: keeps pictures by position and selection."""

    def __init__(self, lab: MemoryMap) -> None:
        self.lab, self.sizes, self.errors = lab, [], []
        lab.send = self.receive
        self.pictures, self.strip = {}, {}
        whole = json.loads(json.dumps(lab.get_state("picture")["picture"]))
        self.receive(whole)

    def receive(self, message, buffers=None):
        self.sizes.append(len(json.dumps(message).encode()))
        message = json.loads(json.dumps(message))
        if "pane" in message:
            self.pane = message["pane"]
            return
        if "error" in message:
            self.errors.append(message["error"])
            return
        base = self.pictures[tuple(message["base"])] if message["base"] else {}
        for position in message["stale"]:
            self.pictures = {} if position == "all" else {k: v for k, v in self.pictures.items() if k[0] != position}
        self.at = (message["position"], message["selected"])
        self.pictures[self.at] = patched(base, message)
        self.strip = patched({} if message["strip"]["base"] is None else self.strip, message["strip"])
        self.message = message

    def show(self, position, selected=None):
        self.lab._receive(
            None, {"do": "show", "position": position, "selected": selected or self.at[1], "have": list(self.at)}, []
        )

    def check(self):
        """The picture here is the picture that Python would draw afresh."""
        lab = self.lab
        scene = lab._scene()
        assert self.pictures[self.at] == {m.id: m.to_json() for m in memory_layout.marks(scene)}
        columns = strip_columns(lab.num_steps, lab.live)
        assert self.strip == {m.id: m.to_json() for m in strip.drawn(lab._history, columns).marks}


def tiny(**knobs):
    knobs = {"block_size": 4, "num_gpu_blocks_override": 12} | knobs
    return LLM("tiny-random", record=True, **knobs)


def params(max_tokens):
    return SamplingParams(max_tokens=max_tokens, ignore_eos=True)


def data_of(page: str) -> dict:
    return json.loads(re.search(r'class="pictures">(.*?)</script>', page, re.S)[1])
