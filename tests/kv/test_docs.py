"""The chapter in the package's docstring is a session that runs."""

import doctest

import pagedlab.kv


def test_one_requests_life_runs_as_it_is_told():
    failed, tried = doctest.testmod(pagedlab.kv, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0 and tried > 25
