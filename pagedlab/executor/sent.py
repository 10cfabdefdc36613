"""A batch on its way to the other ranks: of what a learner's table may be, only its numbers travel."""

from __future__ import annotations

from dataclasses import dataclass

from pagedlab.executor.abstract import ScheduledRequest


@dataclass(frozen=True)
class SentTable:
    """The part of a block table that one step reads."""

    block_ids: list[int]
    slots: list[int]

    def slot_mapping(self, start: int, end: int) -> list[int]:
        return self.slots

    def __len__(self) -> int:
        return len(self.block_ids)


@dataclass(frozen=True)
class SentTables:
    groups: tuple[SentTable, ...]


@dataclass(frozen=True)
class SentTokens:
    """``those`` from ``start`` on, of ``count`` tokens."""

    count: int
    start: int
    those: list[int]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, span: slice) -> list[int]:
        return self.those[span.start - self.start : span.stop - self.start]


def sent(part: ScheduledRequest) -> ScheduledRequest:
    """The same to whoever runs it: plain numbers, which stay as they are now."""
    start, end = part.start, part.end
    tokens = SentTokens(len(part.token_ids), start, list(part.token_ids[start:end]))
    tables = (SentTable(list(table.block_ids), list(table.slot_mapping(start, end))) for table in part.tables)
    return ScheduledRequest(part.request_id, tokens, start, end, SentTables(tuple(tables)))
