"""The recordings in the package, and the replay that keeps both sides."""

import json

import pytest

from pagedlab.errors import PagedlabError
from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.parity import compare_file, in_package
from pagedlab.parity.side_by_side import golden, side_by_side
from pagedlab.trace import replay


class InOrder(KVCacheManager):
    def free(self, request):
        self.block_pool.free_blocks(self.req_to_blocks.pop(request.request_id))
        del self.num_cached_block[request.request_id]


def test_the_recordings_in_the_package_are_those_that_the_tests_use(root):
    assert [path.name.split(".")[0] for path in in_package()] == ["kv-01", "sched-02", "async-4", "sync-1", "sync-4"]
    for path in in_package():  # those of vLLM's whole engine are replayed in test_live.py
        folder = "vllm-live" if "sync-" in path.name else "vllm-0.32.0"
        assert path.read_bytes() == (root / "tests/golden" / folder / path.name).read_bytes()
        assert folder == "vllm-live" or compare_file(path)[1] is None


def test_an_unknown_recording_is_named_with_those_that_there_are():
    with pytest.raises(PagedlabError, match="kv-01, sched-02"):
        golden("sched-99")


def test_ours_is_the_same_in_every_step_and_its_trace_replays_to_the_same_memory():
    both = side_by_side(golden("sched-02"))
    assert both.different_steps == [] and len(both.ours) == len(both.theirs) and not both.error
    state = replay(both.trace)
    assert state.counts["step_ended"] == len(both.theirs)
    # The last step's queue was taken before its request finished and gave its blocks back.
    assert set(both.theirs[-1]["free"]) < set(state.free) and len(state.free) == both.header["num_blocks"] - 1
    assert all(request.status == "finished" for request in state.requests.values())


def test_a_changed_rule_shows_as_differences_and_the_replay_goes_on():
    both = side_by_side(golden("sched-02"), kv_cache_manager=InOrder)
    first = both.different_steps[0]
    assert first > 0 and both.different(first) == ["free"] and len(both.ours) == len(both.theirs)


def test_a_part_that_fails_ends_our_side_and_every_later_step_differs():
    class Stubborn(BlockPool):
        def touch(self, blocks):
            raise RuntimeError("no")

    both = side_by_side(golden("sched-02"), block_pool=Stubborn)
    assert both.error == "RuntimeError: no" and 0 < len(both.ours) < len(both.theirs)
    assert both.different_steps == list(range(len(both.ours), len(both.theirs)))


def test_a_recording_of_another_kind_is_refused(tmp_path):
    with pytest.raises(PagedlabError, match="no recording of vLLM's V1 Scheduler"):
        side_by_side(golden("kv-01"))
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"kind": "header", "engine": 7}))
    with pytest.raises(PagedlabError, match="its engine is 7"):
        side_by_side(path)
