"""Part 10.1: whose blocks are these? Read from a record of calls, in which none names a request and a block."""

from __future__ import annotations

import random

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.engine.scheduler import Scheduler
from pagedlab.grading.draws import twice
from pagedlab.grading.part import Part, Property
from pagedlab.grading.plain import is_ints, raised, show
from pagedlab.grading.tasks.ex10 import probes
from pagedlab.grading.tasks.ex10.watched import as_record, watched
from pagedlab.kv import BlockPool, KVCacheManager

SIZE = 4
NAMES = ("A", "B", "A2", "C", "B2", "D", "req-1", "req-10")


def right(calls: list[dict]) -> dict[str, list[int]]:
    """The tables after these calls. A call of the pool is made for the request of the manager's call around it."""
    tables: dict[str, list[int]] = {}
    whose = ""
    for call in calls:
        if call["request"]:
            whose = call["request"]
        if call["method"] in ("touch", "get_new_blocks"):
            tables.setdefault(whose, []).extend(call["blocks"])
        elif call["method"] == "free":
            tables.pop(whose, None)
    return {name: table for name, table in tables.items() if table}


def run(rng: random.Random, num_requests: int, num_steps: int) -> tuple[list[dict], KVCacheManager]:
    """A run of the package's own scheduler, manager and pool, with made-up tokens in place of a model's: its calls, and
    the manager as it is in the end."""
    manager = KVCacheManager(BlockPool(rng.randint(7, 12), True), SIZE, 10_000, True)
    scheduler = Scheduler(manager, max_num_seqs=9, max_num_batched_tokens=10_000, max_model_len=10_000)
    common = [rng.randrange(99) for _ in range(3 * SIZE)]
    coming = []
    for name in NAMES[:num_requests]:
        prompt = common[: SIZE * rng.randint(0, 3)] + [rng.randrange(99) for _ in range(rng.randint(1, 6))]
        params = SamplingParams(max_tokens=rng.randint(1, 7), ignore_eos=True)
        coming.append(Request(name, prompt, params, block_size=SIZE, enable_caching=True))
    with watched(scheduler, manager, manager.block_pool) as calls:
        for step in range(num_steps):
            while coming and (step == 0 or rng.random() < 0.5):
                scheduler.add_request(coming.pop(0))
                if rng.random() < 0.6:
                    break
            if scheduler.has_unfinished_requests():
                output = scheduler.schedule()
                tokens = {name: rng.randrange(99) for name in output.num_scheduled_tokens}
                scheduler.update_from_output(output, tokens, lambda request: False)
    return as_record(calls), manager


def _cases(rng: random.Random, seed: int) -> list[dict]:
    drawn = sorted(twice(_drawn, rng, "10.1"), key=len)
    return [{"calls": calls} for calls in (*drawn, _many_blocks())]


def _many_blocks() -> list[dict]:
    """One request finds 40 blocks and gets 40 more."""
    calls = [(0, "schedule", None, None), (1, "get_computed_blocks", "A", None)]
    calls += [(2, "get_cached_block", None, [block]) for block in range(50, 90)]
    calls += [(1, "allocate_slots", "A", None), (2, "touch", None, [*range(50, 90)])]
    calls += [(2, "get_new_blocks", None, [*range(1, 41)])]
    return [dict(zip(("depth", "method", "request", "blocks"), call, strict=True)) for call in calls]


def _drawn(rng: random.Random) -> list[list[dict]]:
    return [run(rng, 2 + i // 4, 2 + i // 2)[0] for i in range(20)]


def _calls_text(case: dict) -> str:
    """The calls of the pool and of the manager, as many as one can read."""
    calls = []
    for call in case["calls"]:
        if call["request"]:
            calls.append(f"{call['method']}({call['request']})")
        elif call["blocks"] is not None and call["method"] != "cache_full_blocks":
            calls.append(f"{call['method']} {call['blocks']}")
    text = ", ".join(calls)
    return text if len(text) < 700 else f"… {text[-700:]}"


def _say(case: dict, what: str) -> str:
    return f"{what}, after the calls {_calls_text(case)}"


def _shape(case: dict, answer: dict) -> str | None:
    found = answer["tables"]
    if type(found) is dict and not raised(found) and all(map(is_ints, found.values())):
        return None
    return _say(case, f"tables gave {show(found)}")


def _who(case: dict, answer: dict) -> str | None:
    expected, found = sorted(right(case["calls"])), sorted(answer["tables"])
    if expected == found:
        return None
    return _say(
        case, f"expected are tables of {', '.join(expected) or 'nobody'}, found of {', '.join(found) or 'nobody'}"
    )


def _which(case: dict, answer: dict) -> str | None:
    for name, table in right(case["calls"]).items():
        if sorted(answer["tables"][name]) != sorted(table):
            return _say(case, f"expected in the table of {name} are {sorted(table)}, found {answer['tables'][name]}")
    return None


def _order(case: dict, answer: dict) -> str | None:
    for name, table in right(case["calls"]).items():
        if answer["tables"][name] != table:
            return _say(case, f"expected is {name}'s table {table}, found {answer['tables'][name]}")
    return None


TABLES = Part(
    "10.1",
    "whose blocks are these, read from the calls",
    2,
    ("tables",),
    _cases,
    probes.tables,
    (
        Property(
            "tables returns a dict from request to its list of blocks",
            _shape,
            ('For example {"A": [3, 4], "C": [3, 7]}.',),
        ),
        Property(
            "whoever holds blocks after the last call has a table, and nobody else",
            _who,
            (
                "free(X) ends X's table, whatever other calls say. Later X may come back and get another one.",
                "A block that was looked up and found is not held yet. allocate_slots may still have no room.",
            ),
        ),
        Property(
            "in a table are the blocks that the pool gave out or shared for its request, while it holds them",
            _which,
            (
                "No call names a request and a block. Which call of the manager was the pool's call made in?",
                "Found blocks are held from touch on, new ones from get_new_blocks on; named ones are not.",
                "free_blocks inside free(X) takes them from X alone: others may hold the same blocks.",
            ),
        ),
        Property(
            "a table's blocks stand in the order in which the request got them",
            _order,
            ("Found blocks hold the start of the prompt; new ones come behind them, step by step.",),
        ),
        Property(
            "the record stays as it is",
            lambda case, answer: _say(case, "the record is another one") if answer["changed"] else None,
            ("A list in the record is the record's: += and extend would change it. Begin a table with a new list.",),
        ),
    ),
)
