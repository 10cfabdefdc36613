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

NEEDS_NONE = ("test_without_triton.py",)
NO_TRITON = "Triton is not installed" if sys.platform == "linux" else "this system has no Triton"

_before = os.environ.get("TRITON_INTERPRET")
os.environ["TRITON_INTERPRET"] = "1"
try:
    from pagedlab.kernels import available, interpreting

    if available():
        interpreting()
        import pagedlab.kernels.compile_only
        import pagedlab.kernels.ladder1_copy
        import pagedlab.kernels.ladder2_gather
        import pagedlab.kernels.ladder3_dot
        import pagedlab.kernels.ladder4_softmax
        import pagedlab.kernels.move_blocks
        import pagedlab.kernels.rungs
        import pagedlab.kernels.write_kv  # noqa: F401
finally:
    if _before is None:
        del os.environ["TRITON_INTERPRET"]
    else:
        os.environ["TRITON_INTERPRET"] = _before


class NotHere(pytest.Module):
    """Tests that cannot even be imported here. In CI that is an error where an install would bring Triton."""

    def collect(self):
        if os.environ.get("CI", "").lower() == "true" and not NO_TRITON.startswith("this system"):
            raise self.CollectError(NO_TRITON)
        pytest.skip(NO_TRITON, allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    if not available() and module_path.name not in NEEDS_NONE:
        return NotHere.from_parent(parent, path=module_path)
    return None


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
