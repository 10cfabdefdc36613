"""Part 10.3: the free queue after a request was freed, and after one came in on a hit."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, raised, show
from pagedlab.grading.tasks.ex10 import probes


def _pool(case: dict) -> Any:
    """A real pool whose free queue, counts and hashes are those of the case."""
    from pagedlab.kv import BlockPool

    pool = BlockPool(case["num_blocks"] + 1)
    blocks = pool.get_new_blocks(case["num_blocks"])
    named = [block for block in blocks if block.block_id in case["hashed"]]
    pool.cache_full_blocks(named, [b"%d" % block.block_id for block in named], 0, len(named))
    for block in blocks:
        for _ in range(case["ref_cnt"][block.block_id] - 1):
            pool.touch([block])
    # One after the other, those with a hash to the tail: what has none goes to the head, so the last one first.
    free = [pool.blocks[i] for i in case["queue"]]
    split = next((i for i, block in enumerate(free) if block.block_hash is not None), len(free))
    pool.free_blocks(free[:split])
    pool.free_blocks(free[split:])
    assert _ids(pool) == case["queue"]
    return pool


def _ids(pool: Any) -> list[int]:
    return [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]


def right(case: dict) -> dict:
    """What the real pool does."""
    pool = _pool(case)
    pool.free_blocks([pool.blocks[i] for i in reversed(case["table"])])
    after_free, pool = _ids(pool), _pool(case)
    pool.touch([pool.blocks[i] for i in case["hits"]])
    pool.get_new_blocks(case["num_new"])
    return {"after_free": after_free, "after_hit": _ids(pool)}


def _cases(rng: random.Random, seed: int) -> list[dict]:
    # Always there, too: two requests hold a block without a hash; and many of everything.
    shared = {"num_blocks": 4, "queue": [1], "table": [2, 3, 4], "ref_cnt": [0, 0, 1, 2, 1], "hashed": [2], "hits": []}
    many_owners = shared | {"ref_cnt": [0, 0, 9, 4, 1], "num_new": 1}
    return [shared | {"num_new": 0}, many_owners, *twice(_drawn, rng, "10.3"), _case(random.Random("10.3 many"), 45)]


def _drawn(rng: random.Random) -> list[dict]:
    return [_case(rng, 4 + i // 2) for i in range(20)]


def _case(rng: random.Random, num_blocks: int) -> dict:
    """A free queue whose blocks without a hash stand first (as they do in a pool that lives), a table, and hits."""
    ids = rng.sample(range(1, num_blocks + 1), num_blocks)
    held = rng.randint(1, num_blocks - 2)
    table, queue = ids[:held], ids[held:]
    full = table[: rng.randint(0, held)]  # a table's first blocks are full, and have a hash
    kept = queue[rng.randint(0, len(queue)) :]
    ref_cnt = [int(i in table) for i in range(num_blocks + 1)]
    shared = full[: rng.randint(0, len(full))]
    for i in shared:
        ref_cnt[i] = rng.randint(2, 3)
    hits = rng.sample(full + kept, rng.randint(0, len(full + kept)))
    left = len(queue) - len([i for i in hits if i in queue])
    return {
        "num_blocks": num_blocks,
        "queue": queue,
        "table": table,
        "ref_cnt": ref_cnt,
        "hashed": sorted(full + kept),
        "hits": hits,
        "num_new": rng.randint(0, left),
    }


def _call(case: dict, name: str) -> str:
    if name == "after_hit":
        return f"after_hit({case['queue']}, {case['hits']}, {case['num_new']})"
    counts = {i: case["ref_cnt"][i] for i in case["table"]}
    hashed = sorted(set(case["hashed"]) & set(case["table"]))
    return f"after_free({case['queue']}, {case['table']}, …) where ref_cnt is {counts} and {hashed} have a hash"


def _of(name: str, wrong: Any) -> Any:
    def broken(case: dict, answer: dict) -> str | None:
        if not wrong(answer[name], right(case)[name], case):
            return None
        return f"{_call(case, name)}: expected is {right(case)[name]}, found {show(answer[name])}"

    return broken


def _no_list(mine: Any, true: list[int], case: dict) -> bool:
    return bool(raised(mine)) or not is_ints(mine)


def _lost(mine: list[int], true: list[int], case: dict) -> bool:
    return any(mine.count(block) != 1 for block in case["queue"])


def _others(mine: list[int], true: list[int], case: dict) -> bool:
    return sorted(mine) != sorted(true)


QUEUE = Part(
    "10.3",
    "the free queue, before and after",
    2,
    ("after_free", "after_hit"),
    _cases,
    probes.queue,
    (
        Property("after_free returns a list of block numbers", _of("after_free", _no_list), ("The head comes first.",)),
        Property(
            "what was free before is free still",
            _of("after_free", _lost),
            ("The queue as it was stands between those that come before its head and those behind its tail.",),
        ),
        Property(
            "a block becomes free when its last owner gives it back",
            _of("after_free", _others),
            ("Each block of the table loses one owner. Who still has one stays where it is.",),
        ),
        Property(
            "what has no hash is handed out next, what has one as late as possible",
            _of(
                "after_free",
                lambda mine, true, case: [i in case["hashed"] for i in mine] != [i in case["hashed"] for i in true],
            ),
            ("One kind goes before the head, the other behind the tail.",),
        ),
        Property(
            "the table is given back from its end",
            _of("after_free", lambda mine, true, case: mine != true),
            ("The start of a prompt is the likeliest to be wanted again: which block of it should be lost last?",),
        ),
        Property("after_hit returns a list of block numbers", _of("after_hit", _no_list), ("The head comes first.",)),
        Property(
            "hits leave the queue from wherever they stand",
            _of("after_hit", lambda mine, true, case: bool(set(mine) & set(case["hits"]))),
            ("In front, in the middle, at the end. A hit that is in use by others is not in the queue at all.",),
        ),
        Property(
            "as many new blocks are taken as are asked for, beside the hits",
            _of("after_hit", lambda mine, true, case: len(mine) != len(true)),
            ("First the hits leave, then num_new of those that are left: else a hit could be handed out.",),
        ),
        Property(
            "new blocks are taken from the head",
            _of("after_hit", lambda mine, true, case: mine != true),
            ("What is left keeps its order.",),
        ),
    ),
)
