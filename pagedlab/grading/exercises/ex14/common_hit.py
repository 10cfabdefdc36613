"""Part 14.4: the longest start of a prompt that every group has in memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex14.drawn import NULL
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, is_ints, raised, same, show
from pagedlab.grading.tasks.ex14 import probes

GROUP_BYTES, HASH_BYTES = 4, 8


def key(name: bytes, group: int) -> str:
    return (name + group.to_bytes(GROUP_BYTES, "big")).hex()


def _first_needed(end: int, window: int | None, block_size: int) -> int:
    """Of a hit of ``end`` blocks: the first block that a group looks at behind it."""
    if window is None:
        return 0
    return max(0, end - -(-(window - 1) // block_size))


def right(case: dict) -> list[Any]:
    """[tokens, for each group its table], by its meaning: of all lengths that suit every group the longest."""
    names = list(map(bytes.fromhex, case["hashes"]))
    held = [[case["cached"].get(key(name, group)) for name in names] for group in range(len(case["windows"]))]
    for end in range((case["num_tokens"] - 1) // case["block_size"], -1, -1):
        firsts = [_first_needed(end, window, case["block_size"]) for window in case["windows"]]
        parts = [blocks[first:end] for blocks, first in zip(held, firsts, strict=True)]
        if all(None not in part for part in parts):
            return [end * case["block_size"], [[NULL] * n + part for n, part in zip(firsts, parts, strict=True)]]
    raise AssertionError("no block at all suits every group")


WINDOWS: tuple[list[int | None], ...] = ([None, 6], [6, None], [None, 10, 10], [None, 6, 13], [9, None, 5], [7, 12])


def _cases(rng: random.Random, seed: int) -> list[dict]:
    fixed = random.Random("14.4 always")
    all_five = range(5)
    rows: list[tuple[list[int | None], int, list[Sequence[int]]]] = [
        # full attention has all, the window its last two; of 22 and 21 tokens (of 21 the last one is in the sixth)
        ([None, 6], 22, [all_five, (3, 4)]),
        ([None, 6], 21, [all_five, (3, 4)]),
        ([None, 6], 20, [all_five, (3, 4)]),  # the last token's block is full: no hit of five
        ([None, 6], 20, [all_five, (2, 3, 4)]),
        ([None, 6], 22, [all_five, ()]),  # nothing of the window: nothing at all
        ([None, 6], 22, [(), all_five]),
        ([None, 6], 22, [(0, 1, 2), all_five]),  # the window's blocks lie behind what full attention has
        ([None, 6], 22, [(0, 1, 2, 4), (3, 4)]),
        ([None, 6], 22, [(0, 1, 2), (0, 3, 4)]),  # the start alone
        ([None, 6], 22, [all_five, (0, 2, 4)]),
        ([6, None], 22, [(2, 3), all_five]),  # the window's group is group 0
        ([None, 6], 3, [(), ()]),
        ([None, 6], 1, [(), ()]),
        ([None, None, 6], 22, [all_five, (0, 1, 2, 3), (1, 2, 3, 4)]),
        ([6], 22, [(1, 2)]),
        ([None], 22, [(0, 1, 3)]),
        # Two windows: 9, then 8 (of 6), 7 (of 10), 5 (of 6), which the other one has, too.
        ([None, 6, 10], 38, [range(9), (3, 4, 6, 7), (2, 3, 4, 5, 6)]),
        ([None, 10, 6], 38, [range(9), (2, 3, 4, 5, 6), (3, 4, 6, 7)]),
        ([6, 6], 22, [(1, 2, 3, 4), (1, 2, 4)]),
        ([None, 40], 22, [all_five, (0, 1, 2)]),
    ]
    cases = [_case(fixed, windows, tokens, 4, held) for windows, tokens, held in rows]
    return [*cases, *twice(_drawn, rng, "14.4")]


def _case(
    rng: random.Random, windows: list[int | None], num_tokens: int, block_size: int, held: Sequence[Sequence[int]]
) -> dict:
    """``held``: for each group the logical blocks that it has."""
    names = [rng.randbytes(HASH_BYTES) for _ in range(num_tokens // block_size)]
    ids = rng.sample(range(1, 400), sum(map(len, held)))
    cached = {key(names[i], group): ids.pop() for group, has in enumerate(held) for i in has}
    hashes = [name.hex() for name in names]
    return {"windows": windows, "num_tokens": num_tokens, "block_size": block_size, "hashes": hashes, "cached": cached}


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(30):
        windows, size = rng.choice(WINDOWS), (4, 2, 4, 16)[i % 4]
        full = 1 + i // 3
        num_tokens = full * size + (rng.randint(1, size - 1) if i % 3 else 0)
        common = rng.randint(1, full) if rng.random() < 0.7 else 0
        held = [_held(rng, full, common, window, size) for window in windows]
        cases.append(_case(rng, windows, num_tokens, size, held))
    return cases


def _held(rng: random.Random, full: int, common: int, window: int | None, block_size: int) -> list[int]:
    """What a group has of ``full`` blocks: full attention a start, a window the ends of some hits, and of others
    something. ``common``: a length that all groups have, 0 for none."""
    if window is None:
        return list(range(rng.randint(max(common, full // 2), full)))
    covering, has = -(-(window - 1) // block_size), set()
    for end in rng.sample(range(1, full + 1), rng.randint(0, min(3, full))):
        has |= set(range(max(0, end - covering), end))
    has -= {i for i in has if rng.random() < 0.1}
    return sorted(has | set(range(max(0, common - covering), common)))


def _in_words(case: dict) -> str:
    groups = []
    for group, window in enumerate(case["windows"]):
        held = {i: case["cached"].get(key(bytes.fromhex(name), group)) for i, name in enumerate(case["hashes"])}
        has = ", ".join(f"logical block {i} in #{block}" for i, block in held.items() if block) or "nothing"
        groups.append(f"group {group} ({f'window {window}' if window else 'full attention'}) has {has}")
    return f"{case['num_tokens']} tokens in blocks of {case['block_size']}; {'; '.join(groups)}"


def _say(case: dict, answer: dict) -> str:
    tokens, tables = right(case)
    return f"{_in_words(case)}: expected is ({tokens}, {tables}), found {show(answer['hit'])}"


def _keys(case: dict, answer: dict) -> str | None:
    return f"find was asked for something with a {answer['odd'][0]}" if answer["odd"] else None


def _shape(case: dict, answer: dict) -> str | None:
    hit = answer["hit"]
    if type(hit) is list and len(hit) == 2 and not raised(hit) and is_int(hit[0], 0) and type(hit[1]) is list:
        if len(hit[1]) == len(case["windows"]) and all(map(is_ints, hit[1])):
            return None
    return f"common_hit gave {show(hit)}"


def _of(wrong: Callable[[dict, list], bool]) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: dict) -> str | None:
        return _say(case, answer) if wrong(case, answer["hit"]) else None

    return broken


def _last(case: dict, hit: list) -> bool:
    return hit[0] >= case["num_tokens"]


def _unusable(case: dict, hit: list) -> bool:
    """Longer than it may be: somebody has not what it would look at."""
    return hit[0] > right(case)[0]


COMMON_HIT = Part(
    "14.4",
    "the hit that all groups have",
    3,
    ("common_hit",),
    _cases,
    probes.common_hit,
    (
        Property(
            "common_hit returns a number of tokens and a list of tables, one for each group",
            _shape,
            ("(12, [[4, 8, 3], [0, 5, 6]]), for example; (0, [[], []]) where nothing is hit.",),
        ),
        Property(
            "find is asked for bytes",
            _keys,
            ("A key is the hash, and behind it the group's number in four bytes: hash + group.to_bytes(4, …).",),
        ),
        Property(
            "the last token is left to be computed",
            _of(_last),
            ("Who computes nothing has no output to choose a token from. How many whole blocks lie before the last?",),
        ),
        Property(
            "every group has what the next token would look at",
            _of(_unusable),
            (
                "A group that has more than the others must do with less. A window's blocks at one length do not help "
                "at another.",
                "When a group has shortened the hit, those before it are asked again, with the shorter length.",
            ),
        ),
        Property(
            "the hit is as long as all groups allow",
            _of(lambda case, hit: hit[0] != right(case)[0]),
            (
                "A window's group needs few blocks. What lies before its window may be missing.",
                "Is the key right? The number of group 1 in four bytes, big-endian, is 00 00 00 01, behind the hash.",
                "At the start a window's group may have fewer blocks than its window covers, if it has all there are.",
            ),
        ),
        Property(
            "each table begins with the blocks that its group needs, and null where it needs none",
            _of(lambda case, hit: not same(hit[1], right(case)[1])),
            (
                "All tables are as long as the hit. A group's blocks are found by keys with its own number.",
                "Of a window's group only the blocks that the window covers are taken.",
            ),
        ),
    ),
)
