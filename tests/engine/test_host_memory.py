"""Memory that a step frees is there for the next step."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, torch
from pagedlab.executor.host_memory import keep_freed_memory
for wanted in (False, True):
    if wanted:
        keep_freed_memory()
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        many = [torch.ones(3 << 20) for _ in range(4)]  # 12 MiB each
        del many
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc is for Linux")
def test_what_was_freed_is_not_handed_out_anew_page_by_page():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    by_itself, kept = map(int, done.stdout.split())
    assert kept < 100 < by_itself, (by_itself, kept)
