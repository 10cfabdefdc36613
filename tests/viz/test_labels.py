"""Names and colours of requests."""

from pagedlab.viz.labels import hues


def test_a_request_keeps_its_colour_whoever_else_arrives():
    before = hues(["p", "B"])
    after = hues(["p", "B", "q", "A", "C"])
    assert {r: after[r] for r in before} == before
    assert (after["A"], after["B"], after["C"]) == (0, 1, 2)
    assert len(set(after.values())) == 5
