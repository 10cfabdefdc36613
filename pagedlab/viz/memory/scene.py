"""What one picture of the memory map depends on, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pagedlab.trace import MemoryState
from pagedlab.trace.events import BlockCopied, Event
from pagedlab.trace.replay import CpuPool
from pagedlab.viz.kit import labels
from pagedlab.viz.kit.labels import plural
from pagedlab.viz.kit.narrator import in_brief, narrate


@dataclass
class Scene:
    """Everything that one picture depends on."""

    state: MemoryState
    events: Sequence[Event]  # of the step that led here (and of what happened before it)
    header: dict[str, Any]
    selected: str | None
    position: int = 0  # steps finished
    num_steps: int = 0  # steps recorded
    live: bool = False
    guess: int | None = None  # the block that the learner pointed at
    names: dict[str, str] = field(init=False)
    hues: dict[str, int] = field(init=False)
    owners: dict[int, list[str]] = field(init=False)  # of each block that somebody holds
    copies: dict[int, int] = field(init=False)  # made in this step (copy-on-write) -> the block it is a copy of
    cpu_owners: dict[int, list[str]] = field(init=False)  # the same for the pool of those swapped out

    def __post_init__(self) -> None:
        self.names = labels.names(self.state.requests)
        self.hues = labels.family_hues(self.state.requests)
        self.owners = {}
        for request_id, table in self.state.tables.items():
            for block_id in dict.fromkeys(table):
                self.owners.setdefault(block_id, []).append(request_id)
        for request_id, region in self.state.regions.items():
            for slot in range(region.start, region.start + region.length):
                self.owners[slot] = [request_id]
        self.copies = {e.to_block_id: e.from_block_id for e in self.events if isinstance(e, BlockCopied)}
        self.cpu_owners = {}
        for request_id, table in self.state.cpu.tables.items():
            for block_id in dict.fromkeys(table):
                self.cpu_owners.setdefault(block_id, []).append(request_id)

    def hue(self, request_id: str) -> str:
        return f"c{self.hues[request_id]}"

    @property
    def swapped(self) -> bool:
        """Is the selected request's memory in the CPU pool?"""
        return self.selected in self.state.cpu.tables

    @property
    def pool(self) -> MemoryState | CpuPool:
        """Where the blocks of ``table`` are."""
        return self.state.cpu if self.swapped else self.state

    @property
    def table(self) -> list[int]:
        """The selected request's blocks, in logical order. (Before paging: the slots of its region.)"""
        if self.selected in self.state.regions:
            region = self.state.regions[self.selected]
            return list(range(region.start, region.start + region.length))
        return self.pool.tables.get(self.selected, [])

    @property
    def num_usable(self) -> int:
        """How many blocks can ever be handed out."""
        return self.state.num_blocks - self.state.has_null_block


def headline(scene: Scene) -> str:
    """One sentence about the selected request."""
    state = scene.state
    if scene.selected is None:
        return "Before the first step" if scene.num_steps else "No request yet: give the engine a prompt"
    request, table = state.requests[scene.selected], scene.table
    if request.status == "refused":
        return "was refused"
    if request.status == "finished":
        return f"finished: {plural(request.num_tokens, 'token')}, no blocks held"
    if not table:
        verb = "preempted" if request.status == "preempted" else "waiting"
        return f"{verb}: {plural(request.num_tokens, 'token')}, none in memory"
    left = len(table) * state.block_size - request.num_computed_tokens
    tokens = plural(request.num_computed_tokens, "token")
    if scene.swapped:
        return f"swapped out: {tokens} in {plural(len(table), 'CPU block')}"
    if scene.selected in state.regions:
        return f"{tokens} in {plural(len(table), 'slot')} in one piece, {left} left"
    return f"{tokens} in {plural(len(table), 'block')}, {plural(left, 'slot') if left else 'no slot'} left"


def step_text(scene: Scene) -> str:
    """Where we are: in the past, at the latest step of a run that goes on, or at its end."""
    state, more = scene.state, ""
    if scene.live and scene.position < scene.num_steps:
        more = " · the past"
    elif scene.live and scene.position and (state.running or state.waiting or state.swapped):
        more = " so far"
    return f"step {scene.position} of {scene.num_steps}{more}"


def title(scene: Scene) -> str:
    """The picture in one line, for a screen reader and as the static picture's name."""
    who = f"{scene.names[scene.selected]}: " if scene.selected is not None else ""
    return f"Memory map, {step_text(scene).removesuffix(' so far')}. {who}{headline(scene)}"


def badge(header: dict[str, Any], live: bool) -> str:
    """What produced the picture: "live · CPU · fp32", "recorded · NVIDIA H200 · bf16 · 2026-07-01"."""
    dtype = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}.get(header.get("dtype"), header.get("dtype"))
    date = None if live else (header.get("date") or "")[:10]
    said = " · ".join(filter(None, ["live" if live else "recorded", header.get("device"), dtype, date]))
    return labels.printable(said)  # a trace may come from anywhere


def scale(header: dict[str, Any], block_size: int) -> str:
    """What one block is in bytes; empty where the header does not tell."""
    s = header.get("model_shape")
    if not s:
        return ""
    total = block_size * s["num_layers"] * 2 * s["num_kv_heads"] * s["head_size"] * s["bytes_per_element"]
    amount = f"{total / 2**20:.3g} MiB" if total >= 2**20 else f"{total / 2**10:.4g} KiB"
    return (
        f"1 block = {plural(block_size, 'token')} × {plural(s['num_layers'], 'layer')} × 2 (K, V) × "
        f"{plural(s['num_kv_heads'], 'head')} × {s['head_size']} numbers × {s['bytes_per_element']} bytes = {amount}"
    )


def story(scene: Scene, shorter: int = 0) -> tuple[str, str]:
    """What the step did: about the selected request, and in brief about the others (``shorter``: see ``in_brief``)."""
    whole = scene.selected if shorter < 3 else None  # of whom all is told
    mine = narrate(scene.events, scene.state, whole).get(scene.selected, "") if scene.selected else ""
    others = in_brief(scene.events, scene.state, scene.selected, shorter)
    if not mine and not others:
        return ("Nothing has happened yet." if scene.position == 0 else "This step changed nothing in memory."), ""
    return (mine, others) if mine else (others, "")
