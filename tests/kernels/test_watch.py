"""The watched decode kernel: it says truly what it read, and its numbers do not change."""

import pytest
import torch
from batches import Batch

from pagedlab.kernels.run import decode
from pagedlab.kernels.tuning import Tuning
from pagedlab.kernels.watch import new_log, spans
from pagedlab.trace.events import SCHEMA_VERSION
from pagedlab.trace.recorder import Trace
from pagedlab.trace.replay import replay
from pagedlab.trace.store import load, save


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("block_size, window", [(16, None), (5, None), (32, None), (8, 20)])
def test_a_watched_run_gives_the_same_numbers_and_names_every_block_once_in_order(splits, block_size, window):
    batch = Batch([70, 1, 33], [1, 1, 1], block_size=block_size, query_heads=4, kv_heads=2)
    log = new_log(3, 2, splits, batch.block_tables.shape[1], "cpu")
    options = dict(sliding_window=window, splits=splits, tuning=Tuning(16, 4, 1))
    watched = decode(*batch.arguments, 1 / 8, **options, watch=log)
    torch.testing.assert_close(watched, decode(*batch.arguments, 1 / 8, **options), atol=0, rtol=0)

    for r, context in enumerate([70, 1, 33]):
        first = 0 if window is None else max(0, context - window)
        table = batch.block_tables[r].tolist()
        expected = [(b, table[b]) for b in range(first // block_size, -(-context // block_size))]
        for head in (0, 1):
            read = [s for s in spans(log) if (s.request, s.kv_head) == (r, head)]
            # Two parts of a split may share the block that lies across their border.
            pairs = [pair for s in read for pair in zip(s.logical_blocks, s.physical_blocks, strict=True)]
            seen = list(dict.fromkeys(pairs))
            assert seen == expected
            assert all(list(s.iterations) == sorted(s.iterations) and s.iterations[0] == 0 for s in read)


def test_the_interpreter_claims_no_processor_and_no_time():
    batch = Batch([20], [1])
    log = new_log(1, 2, 1, batch.block_tables.shape[1], "cpu")
    decode(*batch.arguments, 1 / 8, watch=log)
    assert all((s.sm, s.start_ns, s.end_ns) == (None, None, None) for s in spans(log))


def test_spans_count_time_from_the_first_programs_start():
    log = new_log(1, 2, 1, 2, "cpu")
    log[0, 0, 0] = torch.tensor([5, 1_000_100, 1_000_900, 7, 0, -1, -1])
    log[0, 1, 0] = torch.tensor([6, 1_000_000, 1_000_500, 7, 0, 3, 1])
    first, second = spans(log)
    assert (first.sm, first.start_ns, first.end_ns, first.physical_blocks) == (5, 100, 900, (7,))
    assert (second.sm, second.start_ns, second.end_ns) == (6, 0, 500)
    assert (second.iterations, second.logical_blocks, second.physical_blocks) == ((0, 1), (0, 1), (7, 3))


def test_spans_are_events_that_a_trace_keeps(tmp_path):
    batch = Batch([40], [1])
    log = new_log(1, 2, 1, batch.block_tables.shape[1], "cpu")
    decode(*batch.arguments, 1 / 8, watch=log)
    events = spans(log)
    assert (
        events[0].kernel == "paged_decode_kernel" and events[0].source == "pagedlab.kernels.decode:paged_decode_kernel"
    )
    header = dict(schema=SCHEMA_VERSION, config=dict(num_blocks=8, block_size=16))
    again = load(save(Trace(header, events), tmp_path / "kernel.jsonl.gz"))
    assert again.events == events
    assert replay(again).counts == {"kernel_span": 2}
