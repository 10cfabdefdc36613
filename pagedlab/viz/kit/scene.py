"""Memory at one moment, as a picture of blocks needs it: who holds which, under what name and in which hue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pagedlab.trace import MemoryState
from pagedlab.trace.events import BlockCopied, Event
from pagedlab.trace.replay import CpuPool
from pagedlab.viz.kit import labels


@dataclass
class Scene:
    """Everything that a picture of blocks depends on."""

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
    has_groups: bool = field(init=False)  # are there layers that look back only so far?
    num_ranks: int = field(init=False)  # on how many ranks a slice of each block lies
    stories: dict[int, tuple[str, str]] = field(init=False, default_factory=dict)  # by how short they are

    def __post_init__(self) -> None:
        self.names = labels.names(self.state.requests)
        self.hues = labels.family_hues(self.state.requests)
        self.has_groups = any(window is not None for window in self.state.windows)
        self.num_ranks = num_ranks(self.header)
        self.owners = {}
        for tables in self.state.group_tables:
            for request_id, table in tables.items():
                for block_id in dict.fromkeys(table):
                    if block_id or not self.has_groups:
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
    def tables(self) -> list[list[int]]:
        """The selected request's blocks in each group of layers; null blocks are 0."""
        return [tables.get(self.selected, []) for tables in self.state.group_tables]

    def is_windowed(self, block_id: int) -> bool:
        """Does the block hold K and V of layers that look back only so far?"""
        if not self.has_groups:
            return False
        state, name = self.state, self.state.cached.get(block_id)
        if name is not None:
            return state.windows[state.prefixes[name].group] is not None
        return any(
            window is not None and any(block_id in table for table in tables.values())
            for window, tables in zip(state.windows, state.group_tables, strict=True)
        )

    @property
    def num_usable(self) -> int:
        """How many blocks can ever be handed out."""
        return self.state.num_blocks - self.state.has_null_block


def bytes_per_block(header: dict[str, Any], block_size: int) -> int | None:
    """Of K and V in all layers that a block is for; None where the header does not tell."""
    s = header.get("model_shape")
    if not s:
        return None
    return block_size * layers_of_a_block(s) * 2 * s["num_kv_heads"] * s["head_size"] * s["bytes_per_element"]


def num_ranks(header: dict[str, Any]) -> int:
    """How many ranks share the model, and have a slice of each block: 1 where the header says nothing of it."""
    return (header.get("config") or {}).get("tensor_parallel_size") or 1


def layers_of_a_block(shape: dict[str, Any]) -> int:
    """``shape``: a header's ``model_shape``. With groups of layers a block is for those of one group."""
    return shape.get("num_layers_of_a_block", shape["num_layers"])
