"""The paper-era manager: vLLM v0.2.0 block for block, nothing lost whatever is asked, and a trace that tells it all."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pytest

from pagedlab.errors import PagedlabError
from pagedlab.kv.block import block_ids
from pagedlab.kv.observed_paper import ObservedBlockSpaceManager
from pagedlab.kv.paper import BlockAllocator, BlockSpaceManager
from pagedlab.parity import compare_file
from pagedlab.trace import MemoryState, Recorder
from pagedlab.trace import events as ev

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "vllm-0.2.0").glob("paper-*.jsonl.gz"))


class Seq:
    def __init__(self, name: str, num_tokens: int) -> None:
        self.request_id, self.all_token_ids = name, [0] * num_tokens


class Group:
    def __init__(self, *seqs: Seq) -> None:
        self.seqs = list(seqs)

    def get_seqs(self) -> list[Seq]:
        return self.seqs


# ------------------------------------------------------------------------------------------- vLLM v0.2.0's decisions


def test_all_six_recordings_are_there():
    assert len(GOLDEN) == 6


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_every_decision_is_that_of_vllm_0_2_0(path):
    what, difference = compare_file(path)
    assert difference is None, str(difference)
    assert what.endswith("operations of vllm 0.2.0 BlockSpaceManager")


@pytest.mark.parametrize(
    "field", ["tables", "ref", "free_gpu", "free_cpu", "copies", "mapping", "allocated", "done", "admitted"]
)
def test_a_recording_that_differs_in_one_field_is_reported_at_that_line(field, tmp_path):
    lines = [json.loads(line) for line in gzip.decompress(GOLDEN[0].read_bytes()).splitlines()]
    i = max(i for i, line in enumerate(lines) if field in line)
    value = lines[i][field]
    lines[i][field] = (
        not value if isinstance(value, bool) else [*value, [7, 7]] if isinstance(value, list) else {"99": ["1"]}
    )
    path = tmp_path / "changed.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    _, difference = compare_file(path)
    assert difference.field == field and f"line {i + 1}," in difference.where


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda lines: lines[0].pop("watermark_blocks"), "line 1 lacks the field 'watermark_blocks'"),
        (lambda lines: lines[1].update(op="explode"), "line 2: unknown operation 'explode'"),
        (lambda lines: lines[2].update(group="g77"), "line 3: group 'g77' is unknown"),
        (lambda lines: lines[2].pop("tables"), "line 3 lacks the field 'tables'"),
        (lambda lines: lines[1].update(prompt_len=-1), "'prompt_len' is -1"),
    ],
)
def test_a_broken_recording_is_refused_with_its_line(change, message, tmp_path):
    lines = [json.loads(line) for line in gzip.decompress(GOLDEN[0].read_bytes()).splitlines()][:9]
    change(lines)
    path = tmp_path / "broken.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(PagedlabError, match=message):
        compare_file(path)


# --------------------------------------------------------------------------------------------------- nothing is lost


def state_of(manager) -> dict:
    return {
        "tables": {name: block_ids(table) for name, table in manager.block_tables.items()},
        "cpu_tables": {name: block_ids(table) for name, table in manager.cpu_block_tables.items()},
        "ref_cnt": [block.ref_cnt for block in manager.gpu_allocator.blocks],
        "cpu_ref_cnt": [block.ref_cnt for block in manager.cpu_allocator.blocks],
        "free": manager.gpu_allocator.get_free_block_ids()[::-1],
        "cpu_free": manager.cpu_allocator.get_free_block_ids()[::-1],
    }


def seen(state: MemoryState) -> dict:
    return {
        "tables": state.tables,
        "cpu_tables": state.cpu.tables,
        "ref_cnt": state.ref_cnt,
        "cpu_ref_cnt": state.cpu.ref_cnt,
        "free": state.free,
        "cpu_free": state.cpu.free,
    }


def check(manager) -> None:
    """Every block is either free or in as many tables as it counts owners."""
    for allocator, tables in (
        (manager.gpu_allocator, manager.block_tables),
        (manager.cpu_allocator, manager.cpu_block_tables),
    ):
        held = [block for table in tables.values() for block in table]
        free = allocator.free_blocks
        assert len(set(free)) == len(free)
        for block in allocator.blocks:
            assert block.ref_cnt == held.count(block)
            assert (block in free) == (block.ref_cnt == 0)


@pytest.mark.parametrize("seed", range(30))
def test_after_any_operations_nothing_is_lost_and_the_trace_gives_the_live_state(seed):
    rng = Random(seed)
    size, num_gpu, num_cpu = rng.choice([1, 2, 4]), rng.randrange(6, 24), rng.randrange(0, 16)
    recorder = Recorder(
        {"config": {"num_blocks": num_gpu, "block_size": size, "era": "paper", "num_cpu_blocks": num_cpu}}
    )
    manager = ObservedBlockSpaceManager(BlockSpaceManager(size, num_gpu, num_cpu, rng.choice([0.0, 0.1])), recorder)
    groups: list[Group] = []  # in the manager
    out: list[Group] = []  # recomputed: outside
    state, done = MemoryState.of(recorder.trace.header["config"]), 0
    count = 0

    def emit(event, **fields):
        recorder.emit(event(**fields))

    def running(group):
        return all(s.request_id in manager.block_tables for s in group.seqs)

    for _ in range(120):
        op = rng.choice(
            ["add", "append", "append", "append", "fork", "end", "swap_out", "swap_in", "preempt", "resume"]
        )
        group = rng.choice(groups) if groups else None
        if op == "add":
            seq = Seq(f"s{count}", rng.randrange(1, 4 * size + 1))
            count += 1
            n = len(seq.all_token_ids)
            emit(ev.RequestArrived, request_id=seq.request_id, token_ids=(0,) * n, texts=("",) * n, max_tokens=9)
            emit(ev.RequestQueued, request_id=seq.request_id)
            out.insert(0, Group(seq))
            op = "resume"
        if op == "resume" and out:
            group = out[0]
            if manager.can_allocate(group):
                manager.allocate(out.pop(0))
                groups.append(group)
                for seq in group.seqs:
                    emit(ev.RequestAdmitted, request_id=seq.request_id, num_computed_tokens=0)
        elif group is None:
            continue
        elif op == "append" and running(group) and manager.can_append_slot(group):
            for seq in group.seqs:
                table = block_ids(manager.block_tables[seq.request_id])
                others = {
                    s.request_id: block_ids(manager.block_tables[s.request_id]) for s in group.seqs if s is not seq
                }
                seq.all_token_ids = seq.all_token_ids + [rng.randrange(2)]
                pair = manager.append_slot(seq)
                now = manager.block_tables[seq.request_id]
                assert now[-1].ref_cnt == 1  # whoever writes is alone
                assert pair is None or (table[-1], now[-1].block_id) == pair
                assert others == {name: block_ids(manager.block_tables[name]) for name in others}
        elif op == "fork" and running(group) and len(group.seqs) < 4:
            parent, child = rng.choice(group.seqs), Seq(f"s{count}", 0)
            count += 1
            child.all_token_ids = list(parent.all_token_ids)
            manager.fork(parent, child)
            group.seqs.append(child)
        elif op == "end":
            manager.free(group.seqs[0])
            emit(ev.RequestFinished, request_id=group.seqs.pop(0).request_id, reason="length")
            if not group.seqs:
                groups.remove(group)
        elif op == "swap_out" and running(group):
            if manager.can_swap_out(group):
                manager.swap_out(group)
                for seq in group.seqs[::-1]:
                    emit(ev.RequestPreempted, request_id=seq.request_id, how="swap")
            else:
                before = state_of(manager)
                with pytest.raises(ValueError, match="too few"):
                    manager.swap_out(group)
                assert state_of(manager) == before
        elif op == "swap_in" and not running(group):
            if manager.can_swap_in(group):
                manager.swap_in(group)
                for seq in group.seqs:
                    emit(ev.RequestAdmitted, request_id=seq.request_id, num_computed_tokens=0)
        elif op == "preempt" and running(group):
            for seq in group.seqs:
                manager.free(seq)
            for seq in group.seqs[::-1]:
                emit(ev.RequestPreempted, request_id=seq.request_id)
            groups.remove(group)
            out.insert(0, group)
        check(manager)
        for event in recorder.trace.events[done:]:
            state.apply(event)
        done = len(recorder.trace.events)
        assert seen(state) == state_of(manager)
    for group in groups:
        for seq in group.seqs:
            manager.free(seq)
    assert (
        manager.gpu_allocator.get_num_free_blocks() == num_gpu
        and manager.cpu_allocator.get_num_free_blocks() == num_cpu
    )


def test_a_group_that_comes_back_with_several_sequences_shares_their_full_blocks_again():
    manager = BlockSpaceManager(4, 20, 0, 0.0)
    a, b = Seq("a", 10), Seq("b", 10)
    b.all_token_ids = [0] * 9 + [1]
    manager.allocate(Group(a, b))
    ta, tb = manager.block_tables["a"], manager.block_tables["b"]
    assert ta[:2] == tb[:2] and ta[2] is not tb[2] and [block.ref_cnt for block in ta] == [2, 2, 1]
    assert manager.gpu_allocator.get_num_free_blocks() == 16


def test_a_swap_in_leaves_room_for_one_more_token_of_each_sequence_and_the_watermark():
    manager = BlockSpaceManager(4, 100, 8, 0.01)
    group = Group(Seq("a", 8), Seq("b", 0))
    manager.allocate(Group(group.seqs[0]))
    manager.fork(*group.seqs)
    manager.swap_out(group)
    filler = Group(Seq("f", 4 * 95))
    manager.allocate(filler)  # 5 free: 2 to swap in, 2 for the tokens, 1 below the watermark
    assert manager.can_swap_in(group)
    manager.gpu_allocator.allocate()
    assert not manager.can_swap_in(group)


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda m, a: m.fork(Seq("ghost", 3), Seq("c", 3)), "'ghost' holds no blocks: it is unknown here"),
        (lambda m, a: m.fork(a, a), "'a' holds blocks already"),
        (lambda m, a: m.free(Seq("ghost", 3)), "'ghost' holds no blocks"),
        (lambda m, a: m.allocate(Group(a)), "'a' holds blocks already"),
        (lambda m, a: m.allocate(Group(Seq("big", 999))), "250 blocks are needed, 5 are free"),
        (lambda m, a: m.append_slot(Seq("ghost", 3)), "'ghost' holds no blocks"),
        (lambda m, a: m.swap_out(Group(a)), "0 free blocks, which are too few"),
        (lambda m, a: m.gpu_allocator.free(m.gpu_allocator.blocks[0]), "double free"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(wrong, message):
    manager = BlockSpaceManager(4, 8, 0)
    a = Seq("a", 10)
    manager.allocate(Group(a))
    before = state_of(manager)
    with pytest.raises(ValueError, match=message):
        wrong(manager, a)
    assert state_of(manager) == before


def test_a_finished_sequence_cannot_be_forked_and_a_swapped_one_cannot_grow():
    manager = BlockSpaceManager(4, 8, 8)
    a = Seq("a", 3)
    manager.allocate(Group(a))
    manager.swap_out(Group(a))
    with pytest.raises(ValueError, match="swapped out"):
        manager.append_slot(a)
    manager.free(a)
    with pytest.raises(ValueError, match="is finished, or was freed before"):
        manager.fork(a, Seq("b", 3))
    check(manager)


def test_pools_of_impossible_sizes_are_refused():
    for wrong in ({"block_size": 0, "num_gpu_blocks": 4}, {"block_size": 4, "num_gpu_blocks": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            BlockSpaceManager(**wrong)
    with pytest.raises(ValueError, match="0 blocks or more"):
        BlockAllocator(-1)
