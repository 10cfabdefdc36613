"""The recorded runs of exercise 12: what stands beside a learner's code cannot say which fault is in which."""

import json
import subprocess
import sys

import pytest

from pagedlab.grading.exercises.ex12.facts import facts, recipes
from pagedlab.grading.exercises.ex12.record import recorded
from pagedlab.grading.tasks.ex12.lineup import STORED, drawn, runs, stored
from pagedlab.hunt import FAULTS
from pagedlab.trace.events import to_dict

# Of the model or the machine, not of memory:
NOT_OF_MEMORY = ("seconds", "token_id", "token_ids", "text", "texts", "block_hash", "parent_hash")


def moves(trace):
    return [{key: x for key, x in to_dict(event).items() if key not in NOT_OF_MEMORY} for event in trace.events]


@pytest.mark.parametrize("which", range(len(recipes())))
def test_the_stored_runs_are_those_that_their_recipes_record_today(which):
    again = json.loads(json.dumps([moves(trace) for trace in recorded(recipes()[which])]))
    assert json.loads(json.dumps([moves(trace) for trace in stored(which)])) == again, "run ex12/record.py"


def test_every_line_up_has_every_fault_once_and_the_seed_draws_line_up_and_order():
    assert len(list(STORED.iterdir())) == len(recipes())
    assert all(sorted(fault for fault, _ in lineup) == sorted(FAULTS) for lineup in recipes())
    assert {drawn(seed)[0] for seed in range(40)} == set(range(len(recipes())))
    assert len({tuple(drawn(seed)[1]) for seed in range(40)}) == 40


def test_the_runs_come_without_the_parts_that_made_them():
    code = (
        "import sys\nfrom pagedlab.grading.tasks.ex12 import runs\nruns(47)\n"
        "print([name for name in sys.modules if name.startswith(('pagedlab.hunt', 'pagedlab.grading.exercises'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("seed", (47, 4711))
def test_no_header_and_no_event_names_a_faulty_part(seed):
    for name, trace in runs(seed).items():
        assert "hunt" not in repr(trace), name
        assert facts(seed)[name].fault not in repr([to_dict(event) for event in trace.events])
