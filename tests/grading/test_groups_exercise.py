"""Exercise 14: what it calls right is what the manager over groups does, which replays vLLM's recordings."""

import random

import pytest

from pagedlab.engine.request import Request, SamplingParams
from pagedlab.grading.exercises.ex14 import common_hit, falls_out, make_room, window_hit
from pagedlab.grading.exercises.ex14.drawn import num_out
from pagedlab.grading.grade import grade
from pagedlab.kv import BlockPool
from pagedlab.kv.block import block_ids
from pagedlab.kv.groups import GroupedKVCacheManager, SlidingWindowGroup

SEEDS = range(6)


def free_queue(pool):
    return block_ids(pool.free_block_queue.get_all_free_blocks())


def moment(manager, request):
    """What exercise 14 asks about, as it is in the manager."""
    pool = manager.block_pool
    return {
        "tables": list(map(list, manager.get_block_ids(request.request_id))),
        "windows": [group.window for group in manager.groups],
        "block_size": manager.block_size,
        "queue": free_queue(pool),
        "named": [block.block_id for block in pool.blocks if block.is_cached],
        "computed": request.num_computed_tokens,
    }


@pytest.mark.parametrize("windows", make_room.WINDOWS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_room_is_made_as_the_manager_makes_it_step_after_step(windows, seed):
    rng, size = random.Random(seed), 4
    pool = BlockPool(12 * len(windows))
    manager = GroupedKVCacheManager(pool, size, 400, windows=windows, retention_interval=rng.choice((0, None, 8)))
    other = Request("B", [rng.randint(3, 99) for _ in range(rng.randint(1, 16))], SamplingParams(), block_size=size)
    assert manager.allocate_slots(other, other.num_tokens) is not None
    tokens = [rng.randint(3, 99) for _ in range(60)]
    request, refused, out = Request("A", tokens, SamplingParams(), block_size=size), 0, 0
    assert manager.allocate_slots(request, 7) is not None
    request.num_computed_tokens = 7
    while request.num_computed_tokens < 60 and refused < 2:
        new = min(rng.choice((1, 1, 2, 5, 9)), 60 - request.num_computed_tokens)
        expected = make_room.right(moment(manager, request) | {"new": new})
        fits = manager.allocate_slots(request, new) is not None
        now = moment(manager, request)
        assert expected == [fits, now["tables"], now["queue"]]
        request.num_computed_tokens += new * fits
        refused, out = refused + (not fits), out + sum(table.count(0) for table in now["tables"])
    assert out or windows == [None]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_falls_out_is_what_a_group_gives_back(seed):
    for case in falls_out._cases(random.Random(seed), seed):
        pool = BlockPool(2 + max(case["table"]))
        group = SlidingWindowGroup(0, pool, case["block_size"], case["window"])
        taken = {block.block_id: block for block in pool.get_new_blocks(pool.num_gpu_blocks - 1)}
        group.req_to_blocks["A"] = [taken.get(number, pool.null_block) for number in case["table"]]
        group.remove_skipped_blocks("A", case["computed"])
        assert falls_out.right(case) == [block_ids(group.req_to_blocks["A"]), free_queue(pool)]
        assert num_out(case["computed"], case["window"], case["block_size"]) == group.num_skipped_blocks(
            case["computed"]
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_windows_hit_is_the_one_that_a_group_finds(seed):
    for case in window_hit._cases(random.Random(seed), seed):
        group = SlidingWindowGroup(0, BlockPool(4), case["block_size"], case["window"])
        first, end = group.find_longest_hit([number and [number] for number in case["found"]])
        assert window_hit.right(case) == [0] * first + case["found"][first:end]


@pytest.mark.parametrize("windows", common_hit.WINDOWS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_common_hit_is_the_one_that_the_manager_finds(windows, seed):
    rng, size, lengths = random.Random(seed), 4, set()
    pool = BlockPool(24 * len(windows))
    manager = GroupedKVCacheManager(pool, size, 400, windows=windows, retention_interval=rng.choice((0, None, 8)))
    starts = [[rng.randint(3, 99) for _ in range(40)] for _ in range(2)]
    for number in range(14):
        tokens = rng.choice(starts)[: rng.randint(1, 40)] + [rng.randint(3, 99) for _ in range(rng.randint(0, 4))]
        request = Request(f"r{number}", tokens, SamplingParams(), block_size=size)
        hits, num_hit = manager.get_computed_blocks(request)
        case = {
            "windows": windows, "num_tokens": len(tokens), "block_size": size,
            "hashes": [name.hex() for name in request.block_hashes],
            "cached": {key.hex(): blocks[0].block_id for key, blocks in pool.cached_block_hash_to_blocks.items()},
        }  # fmt: skip
        assert common_hit.right(case) == [num_hit, list(map(block_ids, hits.blocks))]
        lengths.add(num_hit)
        if manager.allocate_slots(request, len(tokens) - num_hit, hits) is not None:
            manager.free(request)
    assert len(lengths) > 1, "some were found, and some were not"


def test_a_key_is_the_managers():
    group = GroupedKVCacheManager(BlockPool(4), 4, 40, windows=[None, 300]).groups[1]
    assert common_hit.key(b"a hash", 1) == group.key(b"a hash").hex()


@pytest.mark.parametrize("part", [falls_out, make_room, window_hit, common_hit])
def test_the_same_draw_gives_the_same_cases(part):
    one, two = (part._cases(random.Random(5), 47) for _ in range(2))
    assert one == two


def test_what_decides_is_always_among_the_cases():
    rooms = make_room._cases(random.Random(3), 47)
    fits = [make_room.right(case)[0] for case in rooms]
    given = [sum(table.count(0) for table in make_room.right(case)[1]) for case in rooms]
    before = [sum(table.count(0) for table in case["tables"]) for case in rooms]
    assert any(now > then and not fit for now, then, fit in zip(given, before, fits, strict=True))
    assert sum(fits) > 20 and fits.count(False) > 5
    hits = [common_hit.right(case) for case in common_hit._cases(random.Random(3), 47)]
    assert sum(tokens == 0 for tokens, _ in hits) > 5 and sum(tokens > 0 for tokens, _ in hits) > 30


BORROWED = {
    "14.1": """
from pagedlab.kv import BlockPool
from pagedlab.kv.groups import SlidingWindowGroup
def falls_out(table, computed, window, block_size):
    out = SlidingWindowGroup(0, BlockPool(4), block_size, window).num_skipped_blocks(computed)
    return [0] * out + table[out:], [block for block in reversed(table[:out]) if block]""",
    "14.3": """
from pagedlab.kv import BlockPool
from pagedlab.kv.groups import SlidingWindowGroup
def window_hit(found, window, block_size):
    first, end = SlidingWindowGroup(0, BlockPool(4), block_size, window).find_longest_hit(found)
    return [0] * first + found[first:end]""",
    "14.4": """
from pagedlab.kv import BlockPool
from pagedlab.kv.groups import GroupedKVCacheManager
def common_hit(hashes, num_tokens, block_size, windows, find):
    manager = GroupedKVCacheManager(BlockPool(4), block_size, 4096, windows=windows)
    return 0, [[] for _ in manager.groups]""",
}


@pytest.mark.slow
def test_the_packages_own_manager_answers_no_part(submission):
    answers = {name: f"# part {name}{code}" for name, code in BORROWED.items()}
    for check in grade(submission(answers, number="14"), with_nbval=False).checks:
        assert (check.earned == 0) == (check.name in BORROWED), check
        assert check.name not in BORROWED or "your own code" in check.reason, check
