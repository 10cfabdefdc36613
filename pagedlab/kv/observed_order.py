"""Is a pool's free queue in the order that the events imply?

The events tell who was handed out and who was given back; from them follows an order of the free blocks. A pool may
have one of its own (least frequently used, say): then a ``FreeQueueReordered`` tells where blocks stand instead.

To compare the two whole, after each call, would cost as much as there are free blocks. So in the usual case only what
a call had to change is looked at: who was handed out, against the head; where those given back went; both ends. What
cannot be noticed at once is a change of places among blocks that the call did not name, away from the ends. It is
noticed when one of them is handed out in another turn, and at the latest when ``TURNS`` times as many blocks have
moved as are free, since the whole queue is looked at then. A queue of at most ``FEW`` is looked at whole in every call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Protocol

from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Recorder
from pagedlab.trace.replay import first_free_order

FEW = 32  # free blocks, which may be looked at in every call
TURNS = 4  # the whole queue is looked at each time that so many times its blocks have moved


class FreeQueueView(Protocol):
    """A pool's own free queue, seen from outside. Blocks are their numbers, the one to be handed out next first."""

    def walk(self) -> list[int]:
        """All of it."""

    def confirms(self, head: Sequence[int], tail: Sequence[int]) -> bool:
        """Does it begin with ``head`` and end with ``tail`` (two blocks each or more)? In a time that depends on
        these alone; False also where this cannot be told."""

    def ends(self, walked: list[int], freed: Collection[int], named: Collection[int]) -> tuple[list[int], list[int]]:
        """Those of ``freed`` that came to the head, and to the tail. ``named``: those of them that have a hash."""


class ImpliedOrder:
    """The free queue as the events imply it, held against the pool's own. ``pool``: "gpu" or "cpu"."""

    def __init__(self, queue: FreeQueueView, num_blocks: int, era: str, recorder: Recorder, pool: str = "gpu") -> None:
        self._queue = queue
        self._recorder = recorder
        self._pool = pool
        self._implied = _Implied(num_blocks, first_free_order(num_blocks, era))
        self._sure = False  # this call's blocks are where they are implied to be
        self._walked: list[int] | None = None  # the whole queue as it is now, where this call has looked
        self._freed: set[int] = set()  # by this call, where it has looked
        self._moved = 0  # blocks since the whole queue was looked at

    def take(self, numbers: Sequence[int], source: str) -> None:
        """These were handed out: they were the head. Called before the event that tells so."""
        self._moved += len(numbers)
        if self._implied.first(len(numbers)) != list(numbers):
            taken, implied = set(numbers), self._implied.all()
            self._tell([*numbers, *(number for number in implied if number not in taken)], taken, source)
        self._implied.leave(numbers)

    def leave(self, number: int) -> None:
        """This one was taken out from where it stood."""
        self._moved += 1
        self._implied.leave([number])

    def give_back(self, to_head: Sequence[int], to_tail: Sequence[int] = ()) -> tuple[Sequence[int], Sequence[int]]:
        """These became free, and are expected at the two ends. Returns where they are, for the event that tells so."""
        self._moved += len(to_head) + len(to_tail)
        self._sure = self._confirmed(to_head, to_tail)
        if not self._sure:
            self._walked = self._queue.walk()
            to_head, to_tail = self._queue.ends(self._walked, {*to_head, *to_tail}, set(to_tail))
            self._freed = {*to_head, *to_tail}
            self._implied.come(dict.fromkeys(to_head), dict.fromkeys(to_tail))
        else:
            self._implied.come(to_head, to_tail)
        return to_head, to_tail

    def settle(self, source: str) -> None:
        """The call is over and told. Where its blocks, or any others, stand elsewhere than that implies, tells this."""
        if not self._sure and (self._walked is not None or not self._confirmed()):
            self._tell(self._queue.walk() if self._walked is None else self._walked, self._freed, source)
            self._moved = 0
        self._sure, self._walked, self._freed = False, None, set()

    def _confirmed(self, to_head: Sequence[int] = (), to_tail: Sequence[int] = ()) -> bool:
        """Is the queue what is implied, with these at its ends? As far as the neighbours there say."""
        there = self._implied.num_free_blocks
        if there <= FEW or self._moved > TURNS * there:
            return False
        return self._queue.confirms([*to_head, *self._implied.first(2)], [*self._implied.last(2), *to_tail])

    def _tell(self, found: Sequence[int], loose: set[int], source: str) -> None:
        """The order is ``found``. Where blocks are missing, or there twice, nothing is told: that is no order, and the
        rules of memory find it."""
        implied = self._implied.all()
        if found == implied or len(found) != len(implied) or set(found) != set(implied):
            return
        places = elsewhere(implied, found, loose)
        self._recorder.emit(
            ev.FreeQueueReordered(
                block_ids=tuple(found[place] for place in places), places=places, pool=self._pool, source=source
            )
        )
        self._implied.come(found, ())  # all of them


def elsewhere(implied: Sequence[int], found: Sequence[int], loose: set[int]) -> tuple[int, ...]:
    """The places in ``found`` of blocks from which it follows: all others keep the order that they have in ``implied``.
    Few of the ``loose`` ones where these suffice, else all from the first to the last difference."""
    differ = [place for place, (a, b) in enumerate(zip(implied, found, strict=True)) if a != b]
    for moved in (loose.intersection(found[place] for place in differ), loose):
        if [b for b in implied if b not in moved] == [b for b in found if b not in moved]:
            return tuple(place for place, block_id in enumerate(found) if block_id in moved)
    return tuple(range(differ[0], differ[-1] + 1))


class _Implied:
    """A queue of block numbers, linked both ways: what is in ``block.py``, without the blocks."""

    def __init__(self, num_blocks: int, numbers: Sequence[int]) -> None:
        self.num_free_blocks = 0
        self._end = num_blocks  # stands before the head, and behind the tail
        self._next: list[int | None] = [None] * num_blocks + [num_blocks]  # None: not in the queue
        self._previous = list(self._next)
        self.come((), numbers)

    def __deepcopy__(self, memo: dict) -> _Implied:
        return _Implied(self._end, self.all())

    def all(self) -> list[int]:
        return self.first(self.num_free_blocks)

    def first(self, n: int) -> list[int]:
        """The ``n`` at the head, or all where there are fewer."""
        return self._from(self._next, n)

    def last(self, n: int) -> list[int]:
        return self._from(self._previous, n)[::-1]

    def _from(self, link: list[int], n: int) -> list[int]:
        found, number = [], link[self._end]
        while number != self._end and len(found) < n:
            found.append(number)
            number = link[number]
        return found

    def come(self, to_head: Collection[int], to_tail: Collection[int]) -> None:
        """Each number once. In a faulty pool some are there already: they are there once, all the same."""
        self.leave(to_head)
        self._link([self._end, *to_head, self._next[self._end]])
        self.leave(to_tail)
        self._link([self._previous[self._end], *to_tail, self._end])
        self.num_free_blocks += len(to_head) + len(to_tail)

    def leave(self, numbers: Iterable[int]) -> None:
        """Those that are there. (Where one is not, the trace contradicts itself, and replay says so.)"""
        after, before = self._next, self._previous
        for number in [number for number in numbers if after[number] is not None]:
            after[before[number]], before[after[number]] = after[number], before[number]
            after[number] = before[number] = None
            self.num_free_blocks -= 1

    def _link(self, numbers: list[int]) -> None:
        after, before = self._next, self._previous
        for a, b in pairwise(numbers):
            after[a], before[b] = b, a
