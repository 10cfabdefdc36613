"""The parts of `pagedlab gpu-check --webgpu`, in the order of their importance. Each adds its rows to the report."""

from pagedlab.bench.gpu.webgpu import fast, recorded, right

PARTS = (
    ("right?", right.kernels),
    ("right?, engine", right.tokens),
    ("copy", fast.copy),
    ("decode", fast.decode_grid),
    ("token", fast.token),
    ("python", fast.python),
    ("engine", recorded.engine),
    ("kernel trace", recorded.kernel_trace),
)
