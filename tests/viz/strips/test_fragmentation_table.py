"""The five rows that compare contiguous and paged memory: each cell is counted in the run."""

from pagedlab.viz.strips.run import serve
from pagedlab.viz.strips.table import ROWS, _states, comparison, measure

LOAD = [(4, 6), (4, 9), (8, 12, 6), (9, 5), (4, 9)]


def cells():
    return {kind: measure(kind, strips) for kind, strips in _states(serve(LOAD, 64, 24, 4)).items()}


def test_there_are_five_rows_and_a_column_for_each_memory():
    lines = comparison(serve(LOAD, 64, 24, 4)).data.splitlines()
    assert len(lines) == 2 + len(ROWS) == 7
    assert {line.count("|") for line in lines} == {6}


def test_contiguous_is_always_one_piece_given_at_the_start_and_paged_comes_block_by_block():
    of = cells()
    for kind in ("max", "power_of_two", "oracle"):
        assert of[kind]["layout"] == "always 1" and "nothing later" in of[kind]["when"]
    assert of["max"]["when"].startswith("24.0 at its start")
    # 4, 4, 8, 9 and 4 prompt tokens take 1, 1, 2, 3 and 1 blocks of 4.
    assert of["paged"]["when"].startswith("6.4 at its start, ") and "block by block" in of["paged"]["when"]
    assert of["paged"]["layout"] == "1 to 5"


def test_only_paged_memory_has_neither_kind_of_fragmentation_at_any_size():
    of = cells()
    assert of["max"]["external"].startswith("0.0") and not of["max"]["internal"].startswith("0.0")
    assert of["oracle"]["internal"].startswith("0.0") and of["oracle"]["external"].endswith("(at worst 40)")
    assert of["paged"]["external"] == "0.0 of 64 (at worst 0)"
    held = {kind: int(cell["utilization"].split("% of those held")[0].split()[-1]) for kind, cell in of.items()}
    assert max(held, key=held.get) == "paged"


def test_the_means_are_those_of_the_runs_own_accounts():
    from statistics import mean

    from pagedlab.kv.contiguous import ContiguousMemory
    from pagedlab.kv.serving import ServedRequest, Serving

    memory = ContiguousMemory(64, 24, "power_of_two")
    late = [ServedRequest("ABCDE"[i], p, o, arrives=at[0] if at else 0) for i, (p, o, *at) in enumerate(LOAD)]
    run = Serving(memory, late)
    run.run()
    of = cells()["power_of_two"]
    assert of["internal"].startswith(f"{mean(step.account.internal for step in run.steps):.1f} of 64")
    assert of["external"].startswith(f"{mean(step.account.external for step in run.steps):.1f} of 64")
    assert of["utilization"].startswith(f"{mean(step.account.token for step in run.steps) / 64:.0%} of all")
