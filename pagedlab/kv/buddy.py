"""A buddy allocator: every piece is a power of two, and two halves that belong together become one again.

Quick, and old (1965); the paper assumes one below its "Orca" baselines (section 6.1). It never hands out a piece of 5
slots: 5 are asked for, 8 are taken. So what a request gets is rounded up a second time, whatever was reserved for it.
"""

from __future__ import annotations

from pagedlab.kv.contiguous import Hole, next_power_of_two


class BuddyAllocator:
    """A strip of ``num_slots`` slots for :class:`pagedlab.kv.contiguous.ContiguousMemory`.

    A strip whose length is no power of two is cut into the largest ones that it holds. What raises, has changed
    nothing.
    """

    fit = "buddy"

    def __init__(self, num_slots: int) -> None:
        if num_slots < 1:
            raise ValueError(f"num_slots is {num_slots}; at least 1")
        self.num_slots = self.num_free = num_slots
        self._free: dict[int, set[int]] = {}  # size -> where free pieces of this size begin
        self._taken: dict[int, int] = {}  # start -> size
        start = 0
        while start < num_slots:
            size = next_power_of_two(num_slots - start + 1) // 2
            self._free.setdefault(size, set()).add(start)
            start += size

    @property
    def holes(self) -> list[Hole]:
        """The free pieces, by start. Two may touch and still not be one."""
        return sorted(Hole(start, size) for size, starts in self._free.items() for start in starts)

    @property
    def longest_hole(self) -> int:
        return max((size for size, starts in self._free.items() if starts), default=0)

    def reserve(self, length: int) -> int | None:
        """The start of a piece of at least ``length`` slots; None, and nothing changed, where there is none."""
        if length < 1:
            raise ValueError(f"cannot reserve {length} slots; at least 1")
        wanted = next_power_of_two(length)
        size = min((size for size, starts in self._free.items() if starts and size >= wanted), default=0)
        if not size:
            return None
        start = min(self._free[size])
        self._free[size].remove(start)
        while size > wanted:  # keep the left half, the right one is free
            size //= 2
            self._free.setdefault(size, set()).add(start + size)
        self._taken[start] = size
        self.num_free -= size
        return start

    def release(self, start: int, length: int) -> None:
        """Give the piece back, joined with its buddy as often as that is free. Raises ValueError where no piece of
        this length was handed out there."""
        size = self._taken.get(start)
        if size is None or length < 1 or next_power_of_two(length) != size:
            raise ValueError(f"cannot release {length} slots at {start}: no such piece was handed out")
        del self._taken[start]
        self.num_free += size
        while start ^ size in self._free.get(size, ()):
            self._free[size].remove(start ^ size)
            start, size = min(start, start ^ size), 2 * size
        self._free.setdefault(size, set()).add(start)
