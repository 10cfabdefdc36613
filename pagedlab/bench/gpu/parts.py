"""The parts of `pagedlab gpu-check`, in the order of their importance. Each adds its rows to the report."""

from pagedlab.bench.gpu import ahead, fast, recorded, right

PARTS = (
    ("copy", fast.copy),
    ("right?", right.correctness),
    ("right?, moving", right.moving),
    ("right?, 2**31", right.large_pool),
    ("decode", fast.decode_grid),
    ("paging", fast.price_of_paging),
    ("rungs", fast.rungs),
    ("split", fast.split_or_not),
    ("launch", fast.launch_overhead),
    ("kernel trace", recorded.kernel_trace),
    ("engine", recorded.engine),
    ("one step ahead", ahead.overlap),
    ("block size", fast.block_sizes),
    ("prefill", fast.prefill_speed),
    ("tuning", fast.neighbours_of_the_table),
    ("others", fast.others),
)
