"""What the recorder costs when blocks are freed goes with the blocks freed, and not with all those that are free."""

import gc
import statistics
import time
from types import SimpleNamespace

import pytest

from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.kv.observed import FreeBlockQueueView, ObservedBlockPool, ObservedKVCacheManager
from pagedlab.kv.observed_paper import FreeBlockStackView, ObservedBlockSpaceManager
from pagedlab.kv.paper import BlockSpaceManager
from pagedlab.trace import Recorder

TOKENS, SIZE = 48 * 16 - 5, 16  # 48 blocks, the last of which is not full
MOST = 8  # times the bare call


def v1(num_blocks: int, watched: bool):
    pool, recorder = BlockPool(num_blocks), Recorder({})
    if watched:
        pool = ObservedBlockPool(pool, SIZE, recorder)
    manager = KVCacheManager(pool, SIZE, 1024)
    return ObservedKVCacheManager(manager, pool, recorder) if watched else manager


def paper(num_blocks: int, watched: bool):
    manager = BlockSpaceManager(SIZE, num_blocks)
    return ObservedBlockSpaceManager(manager, Recorder({})) if watched else manager


def request(name: str) -> SimpleNamespace:
    own = SimpleNamespace(
        request_id=name,
        all_token_ids=[0] * TOKENS,
        num_tokens=TOKENS,
        num_computed_tokens=0,
        status="waiting",
        block_hashes=[f"{name} {i}".encode() for i in range(TOKENS // SIZE)],
    )
    own.get_seqs = lambda: [own]
    return own


def seconds_to_free(manager, requests) -> float:
    for each in requests:
        if hasattr(manager, "allocate_slots"):
            manager.allocate_slots(each, TOKENS)
        else:
            manager.allocate(each)
    taken = []
    for each in requests:
        started = time.perf_counter()
        manager.free(each)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


@pytest.mark.parametrize("num_blocks", [1_000, 100_000])
@pytest.mark.parametrize("make", [v1, paper])
def test_freeing_with_the_recorder_takes_at_most_8_times_as_long(make, num_blocks):
    bare, watched, ratios = make(num_blocks, False), make(num_blocks, True), []
    gc.collect()
    gc.disable()
    try:
        for turn in range(15):
            requests = [request(f"{turn}.{i}") for i in range(8)]
            ratios.append(seconds_to_free(watched, requests) / seconds_to_free(bare, requests))
    finally:
        gc.enable()
    assert statistics.median(ratios) <= MOST, ratios


@pytest.mark.parametrize(("make", "view"), [(v1, FreeBlockQueueView), (paper, FreeBlockStackView)])
def test_the_whole_queue_is_looked_at_seldom(make, view, monkeypatch):
    """The same without a clock."""
    walks, walk = [], view.walk
    monkeypatch.setattr(view, "walk", lambda self: walks.append(walk(self)) or walks[-1])
    manager = make(10_000, True)
    walks.clear()
    for turn in range(500):  # 4 times 10,000 blocks move about
        seconds_to_free(manager, [request(str(turn))])
    assert 1 <= sum(len(walked) > 1_000 for walked in walks) <= 2  # (short ones are looked at in every call)
