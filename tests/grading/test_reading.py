"""Exercise 10: its records are of real runs, and its references say what the real manager and pool did."""

import random

import pytest

from pagedlab.grading.exercises.ex10.facts import facts
from pagedlab.grading.exercises.ex10.tables import NAMES, right, run
from pagedlab.grading.tasks.ex10 import puzzle, recorded


@pytest.mark.parametrize("seed", range(4))
def test_the_tables_read_from_a_record_are_those_of_the_engine_that_made_it(seed):
    engine, record = recorded(seed)
    held = {name: engine.kv_cache_manager.get_block_ids(name) for name in "ABCD"}
    assert right(record) == {name: table for name, table in held.items() if table}


def test_the_tables_read_from_the_cases_records_are_those_of_their_managers():
    calls_of, shared, came_back = set(), 0, 0
    for seed in range(60):
        calls, manager = run(random.Random(seed), 3 + seed % 4, 4 + seed % 7)
        held = {name: manager.get_block_ids(name) for name in NAMES}
        assert right(calls) == {name: table for name, table in held.items() if table}
        calls_of |= {call["method"] for call in calls}
        blocks = [block for table in held.values() for block in table]
        shared += len(blocks) > len(set(blocks))
        freed = [call["request"] for call in calls if call["method"] == "free"]
        came_back += len(freed) > len(set(freed)) or bool(set(freed) & {name for name, table in held.items() if table})
    assert len(calls_of) == 10 and shared > 5 and came_back > 2


def test_no_call_of_a_record_names_a_request_and_a_block_or_whose_method_it_is():
    _, record = recorded(47)
    assert not [call for call in record if call["request"] and call["blocks"] is not None]
    assert {tuple(call) for call in record} == {("depth", "method", "request", "blocks")}


@pytest.mark.parametrize("seed", range(4))
def test_the_letters_of_the_puzzle_say_nothing_of_the_order(seed):
    texts = list(puzzle(seed).calls.values())
    assert texts == sorted(texts) and puzzle(seed) == facts(seed).puzzle
    assert [texts["abcdefghijklmnopqrstuvwxyz".index(x)] for x in facts(seed).order] != texts
