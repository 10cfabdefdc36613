"""A forked child owns what it has written, and nothing that it has only read."""

import pytest

from pagedlab.bench.linux_fork import measure


def test_a_child_pays_for_what_it_writes():
    own = measure(mib=16, shares=(0.5, 1.0))
    if own is None:
        pytest.skip("this system does not say how much memory of a process is its own")
    read, half, all_of_it = own.values()
    assert read < 2 and 7 < half < 10 and 15 < all_of_it < 18
