"""Kernel tests run in Triton's interpreter, which has to be chosen before Triton is imported, and only for them.

So the variable is set here while triton and all kernels are imported, and again for each test of this folder;
notebooks and programs that other tests start do not inherit it. What needs compiled kernels (test_compiled.py) starts
a process of its own.
"""

import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "attention"))  # `batches`, the random ragged batches
torch.set_num_threads(1)

_before = os.environ.get("TRITON_INTERPRET")
os.environ["TRITON_INTERPRET"] = "1"
try:
    from pagedlab.kernels import interpreting

    interpreting()
    import pagedlab.kernels.compile_only
    import pagedlab.kernels.ladder1_copy
    import pagedlab.kernels.ladder2_gather
    import pagedlab.kernels.ladder3_dot
    import pagedlab.kernels.ladder4_softmax
    import pagedlab.kernels.rungs  # noqa: F401
finally:
    if _before is None:
        del os.environ["TRITON_INTERPRET"]
    else:
        os.environ["TRITON_INTERPRET"] = _before


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
