"""Part 03.2: slot_mapping."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex03.table import BLOCK_SIZES
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.ex03 import probes
from pagedlab.kv import BlockTable


def _slot_cases(rng: random.Random, seed: int) -> list[dict]:
    # Always there: a chunk that starts inside a block and crosses into the next one, which is not its neighbour;
    # padding that is more than the chunk, as much, less, none; an empty chunk, with padding and without.
    chunks = ((2, 6, None), (3, 5, 4), (1, 7, 3), (1, 7, 6), (1, 7, 7), (0, 8, 0), (5, 5, None), (5, 5, 2))
    cases = [
        {"block_ids": [41, 17], "block_size": 4, "start": start, "end": end, "pad_to": pad_to}
        for start, end, pad_to in chunks
    ]
    long = [7919 * i for i in range(1, 71)]  # high numbers, and more than a few
    large = {"block_ids": long, "block_size": 48, "start": 3308, "end": 3316, "pad_to": 12}
    # Slots that 32 bits do not hold.
    huge = {"block_ids": [90_000_000, 60_000_000], "block_size": 48, "start": 46, "end": 50, "pad_to": 6}
    return [*cases, *twice(_drawn, rng, "03.2"), large, huge]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(28):
        size, num_blocks = BLOCK_SIZES[i % len(BLOCK_SIZES)], 2 + i // 7
        room = size * num_blocks
        start = 0 if i < 3 else rng.randint(0, room - 1)
        end = start if i % 14 == 13 else rng.randint(start + 1, room)
        cases.append(
            {
                "block_ids": rng.sample(range(60), num_blocks),
                "block_size": size,
                "start": start,
                "end": end,
                "pad_to": (None, rng.randint(0, end - start), end - start + rng.randint(1, 4))[i % 3],
            }
        )
    return cases


def _call(case: dict) -> str:
    padding = "" if case["pad_to"] is None else f", pad_to={case['pad_to']}"
    return f"slot_mapping({case['block_ids']}, {case['block_size']}, {case['start']}, {case['end']}{padding})"


def _of_slots(wrong: Any) -> Any:
    """Look at (case, slots, reference slots without padding) and tell of the first wrong case. ``wrong`` says what was
    expected; None where nothing is wrong."""

    def broken(case: dict, answer: dict) -> str | None:
        right = BlockTable(case["block_size"], case["block_ids"]).slot_mapping(case["start"], case["end"])
        expected = wrong(case, answer["slots"], right)
        return expected and f"{_call(case)} gave {show(answer['slots'])}; expected {expected}"

    return broken


def _no_list(case: dict, slots: Any, right: list[int]) -> str | None:
    return None if is_ints(slots) else "a list of whole numbers"


def _count(case: dict, slots: list[int], right: list[int]) -> str | None:
    count = max(len(right), case["pad_to"] or 0)
    return None if len(slots) == count else f"{count} numbers"


def _block(case: dict, slots: list[int], right: list[int]) -> str | None:
    size = case["block_size"]
    for i, (slot, other) in enumerate(zip(slots, right, strict=False)):
        if slot // size != other // size:
            first = other - other % size
            return f"one of the slots {first} to {first + size - 1} for position {case['start'] + i}"
    return None


def _offset(case: dict, slots: list[int], right: list[int]) -> str | None:
    return None if same(slots[: len(right)], right) else f"{right} for these positions"


def _padding(case: dict, slots: list[int], right: list[int]) -> str | None:
    rest = slots[len(right) :]
    return None if all(same(slot, -1) for slot in rest) else f"-1 in the last {len(rest)} places"


def _block_list_changed(case: dict, answer: dict) -> str | None:
    return (
        None
        if same(answer["block_ids"], case["block_ids"])
        else f"after {_call(case)} the list of blocks was {show(answer['block_ids'])}"
    )


SLOTS = Part(
    "03.2",
    "slot_mapping sends every token to its slot",
    3,
    ("slot_mapping",),
    _slot_cases,
    probes.slots,
    (
        Property(
            "slot_mapping returns a list of plain ints",
            _of_slots(_no_list),
            (
                "One list of ints, no pairs. Position end itself is not in the chunk any more.",
                "Does the function return the list? A tensor or a generator is none.",
            ),
        ),
        Property(
            "there is one number for each position from start on, up to and without end, and at least pad_to numbers",
            _of_slots(_count),
            (
                "Chunk 2 to 6 means positions 2, 3, 4 and 5: four numbers. With pad_to=6 the list has six.",
                "pad_to is how long the whole list is to be, not how much is added. 0 adds nothing.",
            ),
        ),
        Property(
            "a slot lies inside the physical block of its position",
            _of_slots(_block),
            (
                "Block b owns the slots from b * block_size up to, without, (b + 1) * block_size.",
                "Entry i is for position start + i, padding is last. The next block may be anywhere: ask anew.",
            ),
        ),
        Property(
            "a slot has its position's offset inside the block",
            _of_slots(_offset),
            (
                "A chunk may start in the middle of a block: position 6 of blocks of 4 is not at an offset of 0.",
                "The offset comes from the position in the request, not from the place in the chunk.",
            ),
        ),
        Property(
            "the places behind the last position hold -1",
            _of_slots(_padding),
            ("0 would be a real slot: the first one of block 0. -1 is the number that the write kernel skips.",),
        ),
        Property(
            "the caller's list of blocks stays as it was",
            _block_list_changed,
            ("The list belongs to the block table, which needs it in the next step. Read from it only.",),
        ),
    ),
)
