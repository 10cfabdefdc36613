"""Names and colours of requests."""

from pagedlab.viz.kit import labels
from pagedlab.viz.kit.labels import hues
from pagedlab.viz.kit.text import cells, width


def test_a_request_keeps_its_colour_whoever_else_arrives():
    before = hues(["p", "B"])
    after = hues(["p", "B", "q", "A", "C"])
    assert {r: after[r] for r in before} == before
    assert (after["A"], after["B"], after["C"]) == (0, 1, 2)
    assert len(set(after.values())) == 5


def test_words_from_right_to_left_turn_nothing_around_them():
    assert [labels.quoted(" a"), labels.quoted('"')] == ["“a”", '‹"›']
    for word in ("שלום", "مرحبا", "١٢"):
        text = labels.quoted(f" {word}")
        assert text == f"“\u2068{word}\u2069”"
        assert width(text, 11) == width(f"“{word}”", 11) and cells(text) == cells(word) + 2
