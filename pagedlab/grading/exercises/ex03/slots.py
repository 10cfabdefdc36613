"""Part 03.2: slot_mapping."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.exercises.ex03.table import BLOCK_SIZES
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, same, show
from pagedlab.grading.tasks.ex03 import probes
from pagedlab.kv import BlockTable


def _slot_cases(rng: random.Random, seed: int) -> list[dict]:
    cases = []
    for i in range(42):
        size, num_blocks = BLOCK_SIZES[i % len(BLOCK_SIZES)], 2 + i // 7
        room = size * num_blocks
        start = 0 if i < 3 else rng.randint(0, room - 1)
        end = start if i % 14 == 13 else rng.randint(start + 1, room)
        pad_to = end - start + rng.randint(1, 4) if i % 3 == 2 else 0
        cases.append(
            {
                "block_ids": rng.sample(range(1, 60), num_blocks),
                "block_size": size,
                "start": start,
                "end": end,
                "pad_to": pad_to,
            }
        )
    # Always there: a chunk that starts inside a block and crosses into the next one, which is not its neighbour.
    high, low = rng.randint(30, 59), rng.randint(1, 28)
    cases.insert(0, {"block_ids": [high, low], "block_size": 4, "start": 2, "end": 6, "pad_to": 0})
    cases.insert(1, {"block_ids": [high, low], "block_size": 4, "start": 3, "end": 5, "pad_to": 4})
    return cases


def _call(case: dict) -> str:
    padding = f", pad_to={case['pad_to']}" if case["pad_to"] else ""
    return f"slot_mapping({case['block_ids']}, {case['block_size']}, {case['start']}, {case['end']}{padding})"


def _of_slots(wrong: Any) -> Any:
    """Look at (case, slots, reference slots without padding) and tell of the first wrong case."""

    def broken(case: dict, answer: dict) -> str | None:
        expected = BlockTable(case["block_size"], case["block_ids"]).slot_mapping(case["start"], case["end"])
        return f"{_call(case)} gave {show(answer['slots'])}" if wrong(case, answer["slots"], expected) else None

    return broken


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
            _of_slots(lambda case, slots, _: not is_ints(slots)),
            (
                "One list of ints, no pairs. Position end itself is not in the chunk any more.",
                "Does the function return the list? A tensor or a generator is none.",
            ),
        ),
        Property(
            "there is one number for each position from start on, up to and without end, and at least pad_to numbers",
            _of_slots(lambda case, slots, expected: len(slots) != max(len(expected), case["pad_to"])),
            (
                "Chunk 2 to 6 means positions 2, 3, 4 and 5: four numbers. With pad_to=6 the list has six.",
                "pad_to is how long the whole list is to be, not how much is added. 0 adds nothing.",
            ),
        ),
        Property(
            "a slot lies inside the physical block of its position",
            _of_slots(
                lambda case, slots, expected: any(
                    slot // case["block_size"] != right // case["block_size"]
                    for slot, right in zip(slots, expected, strict=False)
                )
            ),
            (
                "Block b owns the slots from b * block_size up to, without, (b + 1) * block_size.",
                "Entry i is for position start + i, padding is last. The next block may be anywhere: ask anew.",
            ),
        ),
        Property(
            "a slot has its position's offset inside the block",
            _of_slots(lambda case, slots, expected: not same(slots[: len(expected)], expected)),
            (
                "A chunk may start in the middle of a block: position 6 of blocks of 4 is not at an offset of 0.",
                "The offset comes from the position in the request, not from the place in the chunk.",
            ),
        ),
        Property(
            "the places behind the last position hold -1",
            _of_slots(lambda case, slots, expected: not all(same(slot, -1) for slot in slots[len(expected) :])),
            ("0 would be a real slot: the first one of block 0. -1 is the number that the write kernel skips.",),
        ),
        Property(
            "the caller's list of blocks stays as it was",
            _block_list_changed,
            ("The list belongs to the block table, which needs it in the next step. Read from it only.",),
        ),
    ),
)
