"""Which block holds token 9? The map from what a request sees to where it lies."""

from __future__ import annotations

from collections.abc import Sequence


class BlockTable:
    """One request's page table: entry ``i`` is the physical block of logical block ``i``.

    Position p lies in logical block ``p // block_size`` at offset ``p % block_size``. A *slot* is a physical place
    as one number, ``physical block * block_size + offset``: the row of the pool to which a token's K and V are
    written.

    Source: the paper, section 4.2; vLLM ``v1/worker/block_table.py`` (model runner V1),
    ``v1/worker/gpu/block_table.py`` (V2, v0.32.0's default).
    """

    def __init__(self, block_size: int, block_ids: Sequence[int] = ()) -> None:
        if block_size < 1:
            raise ValueError(f"block_size is {block_size}; it must be at least 1")
        self.block_size = block_size
        self.block_ids = list(block_ids)

    def append(self, block_ids: Sequence[int]) -> None:
        """Add the physical blocks of the next logical blocks."""
        self.block_ids.extend(block_ids)

    def locate(self, position: int) -> tuple[int, int]:
        """(physical block number, physical block offset) of a logical position. Raises IndexError beyond the table."""
        if not 0 <= position < len(self) * self.block_size:
            raise IndexError(
                f"position {position} is outside the table: {len(self)} blocks of {self.block_size} hold positions "
                f"0 to {len(self) * self.block_size - 1}"
            )
        return self.block_ids[position // self.block_size], position % self.block_size

    def slot_mapping(self, start: int, end: int) -> list[int]:
        """The slots of positions ``start`` to ``end`` (exclusive), one number each."""
        if start < end:
            self.locate(start), self.locate(end - 1)
        size, ids = self.block_size, self.block_ids
        return [ids[p // size] * size + p % size for p in range(start, end)]

    def __len__(self) -> int:
        return len(self.block_ids)


class GroupedBlockTable:
    """One request's block tables, one for each group of layers (see ``groups.py``)."""

    def __init__(self, groups: Sequence[BlockTable]) -> None:
        self.groups = tuple(groups)

    def append(self, block_ids: Sequence[Sequence[int]]) -> None:
        """Add the physical blocks of the next logical blocks: a list for each group."""
        for table, ids in zip(self.groups, block_ids, strict=True):
            table.append(ids)


def tables_of(table: BlockTable | GroupedBlockTable) -> tuple[BlockTable, ...]:
    """The table of each group of layers. Most models have one group, and most tables are that one's."""
    return getattr(table, "groups", (table,))
