"""A forked child owns what it has written, and nothing that it has only read."""

import pytest

from pagedlab.bench import linux_fork
from pagedlab.bench.linux_fork import measure

pytestmark = pytest.mark.skipif(
    not linux_fork.says(), reason="this system does not say how much memory of a process is its own"
)


def test_a_child_pays_for_what_it_writes():
    own = measure(mib=16, shares=(0.5, 1.0))
    read, half, all_of_it = own.values()
    assert read < 2 and 7 < half < 10 and 15 < all_of_it < 18


def test_a_measuring_process_that_fails_is_an_error_and_no_missing_figure():
    with pytest.raises(RuntimeError, match="the process that forks failed"):
        measure(mib=-1)
