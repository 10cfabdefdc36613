"""Part 16.2: what lies on each card, and how many tokens all of them hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.exercises.ex16 import heads
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_int, raised, show
from pagedlab.grading.tasks.ex16 import probes

NAMES = ("weights", "block", "tokens")


def right(case: dict) -> dict[str, int]:
    """Matrix by matrix, of rank 0: [rows, columns] of each."""
    m, ranks = case["model"], case["ranks"]
    mine = heads.right({"query_heads": m["query_heads"], "kv_heads": m["kv_heads"], "ranks": ranks})[0]
    query, kv = (len(mine[name]) * m["head_size"] for name in ("query", "kv"))
    neurons, hidden = m["neurons"] // ranks, m["hidden"]
    layer = [(query, hidden), (kv, hidden), (kv, hidden), (hidden, query), *[(neurons, hidden)] * 3, *[(1, hidden)] * 2]
    ends = [(-(-m["vocabulary"] // ranks), hidden)] * (1 if m["tied"] else 2) + [(1, hidden)]
    weights = m["bytes"] * sum(rows * columns for rows, columns in layer * m["layers"] + ends)
    block = m["bytes"] * m["layers"] * 2 * kv * case["block_size"]
    num_blocks = max(0, case["card"] - weights) // block
    return {"weights": weights, "block": block, "tokens": max(0, num_blocks - 1) * case["block_size"]}


def _model(rng: random.Random, kv: int, readers: int, ranks: int, tied: bool) -> dict[str, Any]:
    head_size = rng.choice((16, 32, 64, 128))
    return {
        "layers": rng.randint(1, 32), "hidden": head_size * rng.randint(2, 12), "query_heads": kv * readers,
        "kv_heads": kv, "head_size": head_size, "neurons": ranks * rng.randint(20, 600),
        "vocabulary": rng.randint(300, 9000), "tied": tied, "bytes": rng.choice((1, 2, 4)),
    }  # fmt: skip


def _case(model: dict, ranks: int, block_size: int, num_blocks: int, more: float) -> dict:
    """A card with room for so many blocks, and a share of another."""
    case = {"model": model, "ranks": ranks, "block_size": block_size, "card": 0}
    sizes = right(case)
    return case | {"card": max(1, sizes["weights"] + int(sizes["block"] * (num_blocks + more)))}


SMOLLM2 = {
    "layers": 30, "hidden": 576, "query_heads": 9, "kv_heads": 3, "head_size": 64, "neurons": 1536, "vocabulary": 49152,
    "tied": True, "bytes": 4,
}  # fmt: skip
LLAMA = {
    "layers": 32, "hidden": 4096, "query_heads": 32, "kv_heads": 8, "head_size": 128, "neurons": 14336,
    "vocabulary": 128256, "tied": False, "bytes": 2,
}  # fmt: skip


def _cases(rng: random.Random, seed: int) -> list[dict]:
    cases = [_case(SMOLLM2, ranks, 16, 100, 0.5) for ranks in (1, 3)]
    cases += [_case(LLAMA, ranks, 16, 1000, 0.0) for ranks in (1, 2, 8, 16)]  # 16: copies
    cases += [_case(LLAMA, 2, 16, blocks, more) for blocks, more in ((2, 0.0), (1, 0.9), (0, 0.5), (-3, 0.0))]
    cases += [_case(LLAMA | {"vocabulary": 128259}, 4, 32, 40, 0.1)]  # rows that do not come out even
    return [*cases, *twice(_drawn, rng, "16.2")]


def _drawn(rng: random.Random) -> list[dict]:
    cases = []
    for i in range(18):
        kv = rng.randint(1, 6)
        copies = rng.choice((1, 1, 2, 3))
        if copies > 1:
            ranks, readers = kv * copies, copies * rng.randint(1, 3)
        else:
            ranks, readers = rng.choice([n for n in range(1, kv + 1) if kv % n == 0]), rng.randint(1, 5)
        model = _model(rng, kv, readers, ranks, tied=i % 2 == 0)
        cases.append(_case(model, ranks, rng.choice((1, 4, 16, 32)), rng.choice((0, 1, 2, 7, 300)), rng.random()))
    return cases


def _say(case: dict, found: Any) -> str:
    given = f"on_each_card({case['model']}, {case['ranks']}, {case['card']}, {case['block_size']})"
    return f"{given} gave {show(found)}"


def _shape(case: dict, answer: Any) -> str | None:
    good = type(answer) is dict and not raised(answer) and sorted(answer) == sorted(NAMES)
    return None if good and all(is_int(answer[name]) for name in NAMES) else _say(case, answer)


def _of(name: str, where: Callable[[dict, dict], bool] = lambda case, true: True) -> Callable[[dict, Any], str | None]:
    def broken(case: dict, answer: Any) -> str | None:
        true = right(case)
        if not where(case, true) or answer[name] == true[name]:
            return None
        return f"{_say(case, answer)}: {name} is not that"

    return broken


def _copied(case: dict) -> bool:
    return case["ranks"] > case["model"]["kv_heads"]


CARDS = Part(
    "16.2",
    "what lies on each card",
    3,
    ("on_each_card",),
    _cases,
    probes.cards,
    (
        Property(
            "on_each_card returns a dict of three ints: weights, block and tokens",
            _shape,
            ('{"weights": 179386368, "block": 245760, "tokens": 1584}, for example. Divide with //.',),
        ),
        Property(
            "weights: of one card, in bytes, where there is one",
            _of("weights", lambda case, true: case["ranks"] == 1),
            (
                "Count the numbers of each matrix of the table, then multiply by the bytes of a number.",
                "The output matrix of attention is as large as that of the queries; each layer has two norms.",
            ),
        ),
        Property(
            "weights: of each card, where KV heads are cut",
            _of("weights", lambda case, true: not _copied(case)),
            (
                "Norms are whole on every card. Everything else is cut.",
                "Rows of the vocabulary that do not come out even: each card has room for the larger share.",
            ),
        ),
        Property(
            "weights: of each card, where KV heads are copied",
            _of("weights", lambda case, true: _copied(case)),
            ("A card never has fewer than one KV head.",),
        ),
        Property(
            "block: the bytes of a block's slice on one card",
            _of("block"),
            (
                "K and V of block_size tokens, in all layers, of the KV heads that this card has.",
                "Where KV heads are copied, a slice does not get smaller with more cards.",
            ),
        ),
        Property(
            "tokens: of one pool whose blocks lie in slices on all cards",
            _of("tokens"),
            (
                "The table is the same on all cards: block 7 is block 7 everywhere. More cards are thinner slices.",
                "How many slices fit beside the weights of one card? Whole ones, and the null block holds no token.",
            ),
        ),
    ),
)
