"""A buddy allocator under contiguous memory: pieces are powers of two, and rounding is counted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedlab.kv.buddy import BuddyAllocator
from pagedlab.kv.contiguous import ContiguousMemory, Hole, next_power_of_two
from pagedlab.kv.serving import ServedRequest, Serving


@given(st.data(), st.integers(1, 80))
@settings(max_examples=100, deadline=None)
def test_pieces_are_powers_of_two_never_overlap_and_all_become_one_again(data, num_slots):
    strip, held = BuddyAllocator(num_slots), []
    before = strip.holes
    for _ in range(data.draw(st.integers(1, 25))):
        if held and data.draw(st.booleans()):
            strip.release(*held.pop(data.draw(st.integers(0, len(held) - 1))))
        else:
            length = data.draw(st.integers(1, 20))
            start = strip.reserve(length)
            if start is None:
                assert strip.longest_hole < next_power_of_two(length)
            else:
                assert start % next_power_of_two(length) == 0
                held.append((start, length))
        pieces = sorted([*strip.holes, *(Hole(start, next_power_of_two(length)) for start, length in held)])
        ends = [0, *(piece.start + piece.length for piece in pieces)]
        assert [piece.start for piece in pieces] == ends[:-1] and ends[-1] == num_slots  # side by side, nothing missing
        assert strip.num_free == sum(hole.length for hole in strip.holes)
    for piece in held:
        strip.release(*piece)
    assert strip.holes == before and strip.num_free == num_slots


def test_a_strip_that_is_no_power_of_two_is_cut_into_the_largest_pieces():
    assert BuddyAllocator(13).holes == [Hole(0, 8), Hole(8, 4), Hole(12, 1)]


def test_what_was_not_handed_out_cannot_be_given_back():
    strip = BuddyAllocator(16)
    assert strip.reserve(5) == 0
    for start, length in ((0, 4), (0, 9), (1, 5), (8, 8), (0, 0)):
        with pytest.raises(ValueError, match="no such piece was handed out"):
            strip.release(start, length)
    strip.release(0, 8)  # any length that rounds up to the piece names it
    assert strip.num_free == 16
    with pytest.raises(ValueError, match="at least 1"):
        strip.reserve(0)
    with pytest.raises(ValueError, match="at least 1"):
        BuddyAllocator(0)


def test_what_is_rounded_up_is_internal_fragmentation_and_every_slot_is_accounted_for():
    memory = ContiguousMemory(64, 24, "oracle", allocator=BuddyAllocator(64))
    serving = Serving(memory, [ServedRequest(f"r{i}", 1 + 5 * i % 9, 2 + i % 4) for i in range(20)])
    while not serving.done:
        account = serving.step().account
        assert account.total == 64 and min(vars(account).values()) >= 0
    memory.admit(ServedRequest("A", 5, 1))
    assert memory.account(None).internal == 3
