"""Turns what a manager of the paper's era does into events; ``observed.py`` does the same for V1.

It watches from outside: it calls the manager, ours or a learner's, and then looks at its tables and its two stacks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pagedlab.kv.block import KVCacheBlock, block_ids, ref_cnts
from pagedlab.kv.observed_order import ImpliedOrder
from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Recorder, source_of


class FreeBlockStackView:
    """The free blocks of a pool of this era, the top of the stack first. The top can be confirmed where the stack is a
    list ``free_blocks`` with its top at the end, as ours is."""

    def __init__(self, allocator: Any) -> None:
        self._allocator = allocator

    def walk(self) -> list[int]:
        return list(self._allocator.get_free_block_ids())[::-1]

    def confirms(self, head: Sequence[int], tail: Sequence[int]) -> bool:
        stack = getattr(self._allocator, "free_blocks", None)
        if not isinstance(stack, list):
            return False
        bottom, top = stack[: len(tail)], stack[-len(head) :]
        return block_ids(reversed(top)) == list(head) and block_ids(reversed(bottom)) == list(tail)

    def ends(self, walked: list[int], freed: Collection[int], named: Collection[int]) -> tuple[list[int], list[int]]:
        """A stack has one end: what is not on top is told to have been put there first."""
        return [number for number in walked if number in freed], []


class ObservedBlockSpaceManager:
    """A ``BlockSpaceManager`` that tells ``recorder`` what it does. Everything else is the wrapped manager's."""

    def __init__(self, manager: Any, recorder: Recorder) -> None:
        self._manager = manager
        self._recorder = recorder
        self._gpu, self._cpu = (
            ImpliedOrder(FreeBlockStackView(allocator), len(allocator.blocks), "paper", recorder, pool)
            for allocator, pool in ((manager.gpu_allocator, "gpu"), (manager.cpu_allocator, "cpu"))
        )
        self._settle(type(manager))  # they may begin in an order of their own

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked while a copy is being made, before there is a manager
            raise AttributeError(name)
        return getattr(self._manager, name)

    # What did not fit.

    def can_allocate(self, group: Any) -> bool:
        return self._noting(self._manager.can_allocate, group, sum(len(s.all_token_ids) for s in group.get_seqs()))

    def can_append_slot(self, group: Any) -> bool:
        return self._noting(self._manager.can_append_slot, group, len(group.get_seqs()))

    def can_swap_in(self, group: Any) -> bool:
        return self._noting(self._manager.can_swap_in, group, sum(len(s.all_token_ids) for s in group.get_seqs()))

    def _noting(self, ask: Any, group: Any, num_tokens: int) -> bool:
        yes = ask(group)
        if not yes:
            self._emit(
                ev.AllocationFailed,
                ask,
                request_id=group.get_seqs()[0].request_id,
                num_tokens=num_tokens,
                num_free_blocks=self._manager.gpu_allocator.get_num_free_blocks(),
            )
        return yes

    # What was done.

    def allocate(self, group: Any) -> None:
        self._manager.allocate(group)
        seen: set[int] = set()
        tables = [list(self._manager.block_tables[sequence.request_id]) for sequence in group.get_seqs()]
        for i, (sequence, table) in enumerate(zip(group.get_seqs(), tables, strict=True)):
            new = []
            later = {block.block_id for other in tables[i + 1 :] for block in other}  # not all owners are told yet
            for block in table:
                if block.block_id in seen:  # a sibling's: shared
                    self._emit(
                        ev.BlockTouched,
                        self._manager.allocate,
                        request_id=sequence.request_id,
                        block_id=block.block_id,
                        revived=False,
                        ref_cnt=None if block.block_id in later else block.ref_cnt,
                    )
                else:
                    new.append(block)
            seen.update(block_ids(new))
            self._gpu.take(block_ids(new), source_of(self._manager.allocate))
            self._emit(
                ev.BlocksAllocated,
                self._manager.allocate,
                request_id=sequence.request_id,
                block_ids=tuple(block_ids(new)),
                ref_cnt=() if later.intersection(block_ids(new)) else ref_cnts(new),
            )
        self._settle(self._manager.allocate)

    def append_slot(self, sequence: Any) -> tuple[int, int] | None:
        before = list(self._manager.block_tables[sequence.request_id])
        pair = self._manager.append_slot(sequence)
        after = list(self._manager.block_tables[sequence.request_id])
        if len(after) > len(before):
            new = after[len(before) :]
            self._gpu.take(block_ids(new), source_of(self._manager.append_slot))
            self._emit(
                ev.BlocksAllocated,
                self._manager.append_slot,
                request_id=sequence.request_id,
                block_ids=tuple(block_ids(new)),
                ref_cnt=ref_cnts(new),
            )
        elif after != before:
            logical = next(i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new)
            self._gpu.take([after[logical].block_id], source_of(self._manager.append_slot))
            self._emit(
                ev.BlockCopied,
                self._manager.append_slot,
                request_id=sequence.request_id,
                logical_block=logical,
                from_block_id=before[logical].block_id,
                to_block_id=after[logical].block_id,
                ref_cnt=ref_cnts((before[logical], after[logical])),
            )
        self._settle(self._manager.append_slot)
        return pair

    def fork(self, parent: Any, child: Any) -> None:
        self._manager.fork(parent, child)
        swapped = child.request_id in self._manager.cpu_block_tables
        tables = self._manager.cpu_block_tables if swapped else self._manager.block_tables
        self._emit(
            ev.RequestForked,
            self._manager.fork,
            request_id=parent.request_id,
            child_id=child.request_id,
            ref_cnt=ref_cnts(tables[child.request_id]),
        )

    def swap_out(self, group: Any) -> dict[int, int]:
        names = tuple(s.request_id for s in group.get_seqs() if s.request_id in self._manager.block_tables)
        moved = [block for name in names for block in self._manager.block_tables[name]]
        left = {block.block_id: block for block in moved}
        mapping = self._manager.swap_out(group)
        self._cpu.take(list(mapping.values()), source_of(self._manager.swap_out))
        freed, _ = self._gpu.give_back(_last_first(moved))
        come = _by_id(self._manager.cpu_block_tables, names)
        self._emit(
            ev.BlocksSwappedOut,
            self._manager.swap_out,
            request_ids=names,
            gpu_block_ids=tuple(mapping),
            cpu_block_ids=tuple(mapping.values()),
            freed=tuple(freed),
            gpu_ref_cnt=ref_cnts(map(left.get, mapping)),
            cpu_ref_cnt=ref_cnts(map(come.get, mapping.values())),
        )
        self._settle(self._manager.swap_out)
        return mapping

    def swap_in(self, group: Any) -> dict[int, int]:
        names = tuple(s.request_id for s in group.get_seqs() if s.request_id in self._manager.cpu_block_tables)
        moved = [block for name in names for block in self._manager.cpu_block_tables[name]]
        left = {block.block_id: block for block in moved}
        mapping = self._manager.swap_in(group)
        self._gpu.take(list(mapping.values()), source_of(self._manager.swap_in))
        freed, _ = self._cpu.give_back(_last_first(moved))
        come = _by_id(self._manager.block_tables, names)
        self._emit(
            ev.BlocksSwappedIn,
            self._manager.swap_in,
            request_ids=names,
            cpu_block_ids=tuple(mapping),
            gpu_block_ids=tuple(mapping.values()),
            freed=tuple(freed),
            cpu_ref_cnt=ref_cnts(map(left.get, mapping)),
            gpu_ref_cnt=ref_cnts(map(come.get, mapping.values())),
        )
        self._settle(self._manager.swap_in)
        return mapping

    def free(self, sequence: Any) -> None:
        swapped = sequence.request_id in self._manager.cpu_block_tables
        tables = self._manager.cpu_block_tables if swapped else self._manager.block_tables
        order = self._cpu if swapped else self._gpu
        blocks = list(tables.get(sequence.request_id, ()))
        self._manager.free(sequence)
        freed, _ = order.give_back(_last_first([block for block in blocks if block.ref_cnt == 0]))
        self._emit(
            ev.BlocksFreed,
            self._manager.free,
            request_id=sequence.request_id,
            block_ids=tuple(block_ids(blocks)),
            to_head=tuple(freed),
            to_tail=(),
            pool="cpu" if swapped else "gpu",
            ref_cnt=ref_cnts(blocks),
        )
        self._settle(self._manager.free)

    def _settle(self, by: Any) -> None:
        self._gpu.settle(source_of(by))
        self._cpu.settle(source_of(by))

    def _emit(self, event: type[ev.Event], by: Any, **fields: Any) -> None:
        self._recorder.emit(event(source=source_of(by), **fields))


def _by_id(tables: dict[str, list[KVCacheBlock]], names: tuple[str, ...]) -> dict[int, KVCacheBlock]:
    """The blocks in the tables of ``names``, by their numbers."""
    return {block.block_id: block for name in names for block in tables[name]}


def _last_first(blocks: Sequence[KVCacheBlock]) -> list[int]:
    """Their numbers, each once: in this order they lie on the stack once the last owner has given them back."""
    return list(dict.fromkeys(block_ids(reversed(blocks))))
