"""How was memory handed out before paging, and where did most of it go?

A request's K and V lay in one piece, as tensors do. So one strip of slots (one slot: room for the K and V of one token)
is cut into regions, one for each request, and a region has to be as long as the request will *ever* need, because it
cannot grow: somebody else's begins right behind it. How long that is nobody knows before the answer is there. Hence two
losses:

* **inside** a region, slots that are reserved and not used: *reserved* for tokens that will come, and *internal
  fragmentation* for tokens that never will;
* **between** regions, holes: *external fragmentation* where the free slots would suffice in sum and no hole is long
  enough.

Source: the paper, section 3.1 and figures 2 and 3 (its "Orca" baselines).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from pagedlab.kv.serving import ServedRequest, SlotAccount


class Hole(NamedTuple):
    start: int
    length: int


def next_power_of_two(number: int) -> int:
    """The smallest power of two that is at least ``number`` (1 or more)."""
    return 1 << (number - 1).bit_length()


# How long a region to reserve: from the slots that the request will need, and the longest request that is allowed. Only
# "max" could be done in earnest; "power_of_two" and "oracle" look into the future. (The paper's power of two rounds up
# the answer's length alone, ours that of prompt and answer together; bench/fragmentation.py measures both.)
RESERVATIONS = {
    "max": lambda num_needed, max_model_len: max_model_len,
    "power_of_two": lambda num_needed, max_model_len: min(next_power_of_two(num_needed), max_model_len),
    "oracle": lambda num_needed, max_model_len: num_needed,
}


class ContiguousAllocator:
    """One strip of ``num_slots`` slots, and the holes in it.

    ``fit``: "first" takes the first hole that is long enough, "best" the shortest one. What raises, has changed
    nothing.
    """

    def __init__(self, num_slots: int, fit: str = "first") -> None:
        if num_slots < 1 or fit not in ("first", "best"):
            raise ValueError(f'num_slots is {num_slots} (at least 1) and fit {fit!r} (allowed are "first" and "best")')
        self.num_slots = num_slots
        self.fit = fit
        self.holes = [Hole(0, num_slots)]  # by start; two holes never touch
        self.num_free = num_slots

    @property
    def longest_hole(self) -> int:
        return max((hole.length for hole in self.holes), default=0)

    def reserve(self, length: int) -> int | None:
        """The start of ``length`` slots in one piece; None, and nothing changed, where no hole is that long."""
        if length < 1:
            raise ValueError(f"cannot reserve {length} slots; at least 1")
        fitting = [i for i, hole in enumerate(self.holes) if hole.length >= length]
        if not fitting:
            return None
        i = fitting[0] if self.fit == "first" else min(fitting, key=lambda i: self.holes[i].length)
        start, rest = self.holes[i].start, self.holes[i].length - length
        self.holes[i : i + 1] = [Hole(start + length, rest)] if rest else []
        self.num_free -= length
        return start

    def release(self, start: int, length: int) -> None:
        """Make a hole of these slots, joined with the holes beside it. Raises ValueError where one of them is free
        already."""
        i = bisect_left(self.holes, Hole(start, 0))  # the first hole behind
        before = self.holes[i - 1] if i else Hole(0, 0)
        after = self.holes[i] if i < len(self.holes) else Hole(self.num_slots, 0)
        if length < 1 or before.start + before.length > start or start + length > after.start:
            raise ValueError(f"cannot release slots {start} to {start + length - 1}: not all of them are in use")
        first, end = start, start + length
        low, high = i, i
        if i and before.start + before.length == start:
            first, low = before.start, i - 1
        if i < len(self.holes) and after.start == end:
            end, high = after.start + after.length, i + 1
        self.holes[low:high] = [Hole(first, end - first)]
        self.num_free += length


class ContiguousMemory:
    """Serves requests from one strip. ``reservation``: a key of :data:`RESERVATIONS`; ``allocator``: the strip (a
    learner's will do).

    See :class:`pagedlab.kv.serving.Memory` for the interface that it shares with paged memory.
    """

    def __init__(
        self,
        num_slots: int,
        max_model_len: int,
        reservation: str = "max",
        fit: str = "first",
        allocator: ContiguousAllocator | None = None,
    ) -> None:
        if reservation not in RESERVATIONS:
            raise ValueError(f"reservation is {reservation!r}; allowed are {', '.join(RESERVATIONS)}")
        if max_model_len < 1:
            raise ValueError(f"max_model_len is {max_model_len}; it must be at least 1")
        self.num_slots = num_slots
        self.max_model_len = max_model_len
        self.reservation = reservation
        self.allocator = allocator or ContiguousAllocator(num_slots, fit)
        self.regions: dict[str, tuple[int, int]] = {}  # request -> start, length
        self._needed: dict[str, int] = {}
        self._written: dict[str, int] = {}

    def config(self) -> dict[str, object]:
        return {
            "era": "contiguous",
            "num_blocks": self.num_slots,
            "block_size": 1,
            "max_model_len": self.max_model_len,
            "reservation": self.reservation,
            "fit": self.allocator.fit,
        }

    def length_of(self, request: ServedRequest) -> int:
        """How many slots are reserved for the request."""
        return RESERVATIONS[self.reservation](request.num_slots, self.max_model_len)

    def why_never(self, request: ServedRequest) -> str | None:
        if request.num_slots > self.max_model_len:
            return f"it needs {request.num_slots} slots, and max_model_len is {self.max_model_len}"
        if self.length_of(request) > self.num_slots:
            return f"{self.length_of(request)} slots would be reserved for it, and the strip has {self.num_slots}"
        return None

    def admit(self, request: ServedRequest) -> bool:
        if request.request_id in self.regions:
            raise ValueError(f"request {request.request_id!r} holds a region already")
        length = self.length_of(request)
        start = self.allocator.reserve(length)
        if start is None:
            return False
        self.regions[request.request_id] = (start, length)
        self._needed[request.request_id] = request.num_slots
        self._written[request.request_id] = request.num_tokens
        return True

    def append(self, request: ServedRequest) -> bool:
        """One more token. Always possible: its slot was reserved from the start. Raises ValueError beyond the
        region."""
        _, length = self.regions[request.request_id]
        if self._written[request.request_id] == length:
            raise ValueError(f"request {request.request_id!r} has filled all {length} slots of its region")
        self._written[request.request_id] += 1
        return True

    def finish(self, request: ServedRequest) -> None:
        start, length = self.regions[request.request_id]
        self.allocator.release(start, length)
        del self.regions[request.request_id], self._needed[request.request_id], self._written[request.request_id]

    def locate(self, request_id: str, position: int) -> tuple[int, int]:
        """The slot of a logical position, as (block, offset) with blocks of one slot."""
        return self.regions[request_id][0] + position, 0

    def account(self, waits: ServedRequest | None) -> SlotAccount:
        token = sum(self._written.values())
        needed = sum(self._needed.values())
        free = self.allocator.num_free
        held = self.num_slots - free  # a buddy allocator takes more than the regions
        external = free if waits is not None and self.length_of(waits) <= free else 0
        return SlotAccount(token, needed - token, held - needed, external, free - external)

    def why_waits(self, request: ServedRequest) -> str:
        if self.length_of(request) <= self.allocator.num_free:
            return "no hole long enough"
        return "not enough free slots"
