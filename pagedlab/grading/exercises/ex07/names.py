"""Part 07.2: names for blocks, so that equal names mean equal prefixes."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import raised, show
from pagedlab.grading.tasks.ex07 import probes
from pagedlab.kv import extend_block_hashes
from pagedlab.kv.prefix import first_parent

LEAST_BYTES = 8


def _cases(rng: random.Random, seed: int) -> list[dict]:
    """Families of prompts that are alike. Each prompt is (tokens, salt)."""
    cases = []
    for i in range(12):
        size = (2, 4, 3, 1, 16, 8)[i % 6]
        one, two, three = ([rng.randint(1, 49151) for _ in range(size)] for _ in range(3))
        rest = [rng.randint(1, 49151) for _ in range(rng.randint(0, size - 1))]
        other = [token + 1 for token in one]
        prompts = [
            [one + two + rest, ""],
            [one + two + three, ""],
            [other + two + rest, ""],  # same second block behind another first one
            [two + one + rest, ""],  # same blocks, other order
            [one[::-1] + two, ""],
            [one + one + one, ""],
            [one[: size - 1], ""],  # no full block
            [one + two, "alice"],
            [one + two, "bob"],
        ]
        cases.append({"block_size": size, "prompts": prompts})
    return [{"block_size": size, "prompts": prompts} for size, prompts in _easily_mistaken()] + cases


def _easily_mistaken() -> list[tuple[int, list]]:
    """Prompts that are easily taken for each other; always asked about."""
    one, two = [1, 11], [5, 6]
    return [
        (2, [[one + two, ""], [[11, 1, 5, 6], ""], [[1, 11, 56, 7], ""]]),  # the same digits, one behind the other
        (2, [[[1, 2, 34, 5], ""], [[1, 23, 4, 5], ""]]),  # the same digits across two blocks
        (2, [[[2, 3, 7, 8], "1"], [[12, 3, 7, 8], ""], [[1, 2, 3, 7], ""], [[3, 7, 7, 8], "12"]]),  # salt and tokens
        (2, [[[23, 4], "1"], [[3, 4], "12"], [[4, 5], "1 23"], [[23, 4, 5, 6], "1 "]]),
        (3, [[[1, 2, 3], ""], [[3, 2, 1], ""], [[2, 1, 3], ""], [[1, 3, 2], ""]]),  # an order
        (3, [[[4, 4, 5], ""], [[4, 5, 5], ""], [[5, 4, 4], ""], [[5, 5, 4], ""]]),  # how often
        (2, [[[1, 4], ""], [[2, 3], ""], [[2, 2], ""], [[4, 1], ""], [[0, 5], ""]]),  # sums and products
        (2, [[[0, 7], ""], [[7, 0], ""], [[0, 0], ""], [[7, 7], ""]]),  # zeros
        (2, [[[5, 9], ""], [[261, 9], ""], [[65541, 9], ""], [[5, 265], ""], [[151_000, 9], ""]]),  # far apart
        (1, [[[5, 5, 5], ""], [[5, 5], ""], [[5], ""], [[], ""]]),
        (4, [[[9, 8, 7], ""], [[9, 8, 7, 6], ""], [[9, 8, 7, 6, 5], ""], [[9, 8, 7, 6, 5, 4, 3, 2], ""]]),
        (2, [[one + two, salt] for salt in ("", "alice", "ecila", "Alice", "alice ", "alicia", "a", "zo\u00eb")]),
        (2, [[one + two, salt] for salt in ("", "zo", "zo\u00e9", "zo\u00eb", "0", "None")]),
        (2, [[one + two, salt] for salt in ("a tenant of ours, the fourth", "a tenant of ours, the fifth")]),
        (1, [[[5], ""], [[131_077], ""], [[200_000], ""], [[68_928], ""], [[261_000], ""], [[129_928], ""]]),
        (1, [[[token], ""] for token in (5, 2**16 + 5, 2**18 + 5, 2**19 + 5, 2**20 + 5)]),  # 5, were it cut off
        (1, [[[token], ""] for token in (63, 0xD7FF, 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xFFFD)]),  # no letters of Unicode
        (1, [[[5, 6], f"{'a tenant of ours, ' * 20}{which}"] for which in ("one", "two")]),
        (1, [[[5, 6], salt] for salt in ("a", "a\0", "a\0b", "\0a", "a\n", "\ta")]),
        (1, [[[5, 6], salt] for salt in ("zo\u00eb", "zoe\u0308", "fi", "\ufb01", "\u2460", "1")]),  # alike to the eye
        (1, [[[first, *range(2, 32)], ""] for first in (0, 1)]),  # alike but for the very first token
        (1, [[[7] * 600, ""]]),  # many names, all different
        (2, [[two + one, ""], [one + one, ""], [two + two, ""], [one + two + one, ""], [two + two + one, ""]]),
    ]


def _call(case: dict, i: int) -> str:
    tokens, salt = case["prompts"][i]
    return f"block_hashes({show(tokens, 60)}, {case['block_size']}" + (f", salt={salt!r})" if salt else ")")


def _bytes(case: dict, answer: dict) -> str | None:
    for i, names in enumerate(answer["names"]):
        if raised(names) or type(names) is not list:
            return f"{_call(case, i)} gave {show(names)}"
        for name in names:
            if type(name) is not str:
                return f"{_call(case, i)} gave a list with a {show(name.get('type'))}"
            if len(name) < 2 * LEAST_BYTES:
                return f"{_call(case, i)} gave a name of {len(name) // 2} bytes; expected are {LEAST_BYTES} or more"
    return None


def _kept(case: dict, answer: dict) -> str | None:
    for i, (tokens, _) in enumerate(case["prompts"]):
        if answer["given"][i] != tokens:
            return f"after {_call(case, i)} the list of tokens is {show(answer['given'][i], 60)}"
    return None


def _count(case: dict, answer: dict) -> str | None:
    for i, names in enumerate(answer["names"]):
        if len(names) != len(case["prompts"][i][0]) // case["block_size"]:
            expected = len(case["prompts"][i][0]) // case["block_size"]
            return f"{_call(case, i)}: expected are {expected} names, found {len(names)}"
    return None


def _pairs(case: dict, answer: dict) -> Any:
    """Every two blocks of the family: (prompt, block) twice, whether their names are equal, and whether they should
    be."""
    blocks, right, mine = [], {}, {}
    for i, (tokens, salt) in enumerate(case["prompts"]):
        hashes: list[bytes] = []
        extend_block_hashes(hashes, tokens, case["block_size"], first_parent(salt))
        for b, block_hash in enumerate(hashes):
            blocks.append((i, b))
            right[i, b], mine[i, b] = block_hash, answer["names"][i][b]
    for x, y in combinations(blocks, 2):
        yield x, y, mine[x] == mine[y], right[x] == right[y]


def _pair_text(case: dict, x: tuple, y: tuple) -> str:
    return f"{_call(case, x[0])}[{x[1]}] and {_call(case, y[0])}[{y[1]}]"


def _equal(case: dict, answer: dict) -> str | None:
    for x, y, mine, right in _pairs(case, answer):
        if right and not mine:
            return f"{_pair_text(case, x, y)} are different names for one prefix"
    return None


def _different(why: str) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        size = case["block_size"]
        for x, y, mine, right in _pairs(case, answer):
            (one, salt), (two, other_salt) = case["prompts"][x[0]], case["prompts"][y[0]]
            if salt != other_salt:
                kind = "salt"
            else:
                same = one[x[1] * size : (x[1] + 1) * size] == two[y[1] * size : (y[1] + 1) * size]
                kind = "chain" if same else "tokens"
            if mine and not right and kind == why:
                return f"{_pair_text(case, x, y)} are one name for two prefixes"
        return None

    return broken


NAMES = Part(
    "07.2",
    "equal names mean equal prefixes",
    2,
    ("block_hashes",),
    _cases,
    probes.names,
    (
        Property(
            "block_hashes returns a list of bytes, 8 or more for each name",
            _bytes,
            (
                "sha256(data).digest() is a bytes object of 32 bytes; hexdigest and hash make something else.",
                "A token id can be above 255, so bytes(token_ids) fails. But any text becomes bytes with .encode().",
            ),
        ),
        Property(
            "every full block has a name, and no other one",
            _count,
            ("A block that is not full yet would change its name with the next token. How many full ones are there?",),
        ),
        Property(
            "equal prefixes have equal names",
            _equal,
            ("A name may depend on the tokens up to the block's end, and on the salt; on nothing behind them.",),
        ),
        Property(
            "other tokens in a block, or in another order, make another name",
            _different("tokens"),
            (
                "All tokens of the block count, and their order.",
                "Written without anything between them, 1, 11 and 11, 1 are the same digits.",
            ),
        ),
        Property(
            "equal blocks behind different beginnings have different names",
            _different("chain"),
            (
                "K and V at a position depend on every token before it.",
                "A chain: what names the block before goes into this block's name.",
            ),
        ),
        Property(
            "different salts share no name",
            _different("salt"),
            (
                "What stands before the first block? Let the salt be there.",
                "Where does the salt end and the first token begin? A hash of the salt alone always has one length.",
            ),
        ),
        Property("the list of tokens stays as it is", _kept, ("It is the caller's. Take slices of it.",)),
    ),
)
