"""Our own source text is known again, and nobody who wrote an answer is taken for a copyist."""

import re
import textwrap

import pytest
from mutants.cells import solved
from submissions import MUTANTS, answers_of, mutants_in

from pagedlab.grading import copied
from pagedlab.grading.copied import SIZE, inside, text_of, texts_in
from pagedlab.grading.own_code import ANSWERS, Refusing

OURS = """
def locate(self, position, room=16):
    "Where it lies."
    if position < 0 or position >= len(self.block_ids) * self.block_size:
        raise IndexError(f"position {position} is outside of the table")
    logical, offset = divmod(position, self.block_size)
    return self.block_ids[logical], offset + room - 16, [i for i in self.block_ids if i]
"""
OTHERWISE = {
    "no docstring": OURS.replace('    "Where it lies."\n', ""),
    "comments and blank lines": OURS.replace("    logical", "\n    # divide\n    logical"),
    "other variables": re.sub(r"\blogical\b", "which", re.sub(r"(?<!f\")\bposition\b", "p", OURS)),
    "annotations": OURS.replace("position, room", "position: int, room"),
    "another name": OURS.replace("def locate", "def find"),
}
CHANGED = {
    "another number": OURS.replace("- 16", "- 15"),
    "another word": OURS.replace("outside of", "beyond"),
    "another attribute": OURS.replace("self.block_ids", "self.blocks"),
    "another operator": OURS.replace(">=", ">"),
    "another place": OURS.replace("logical, offset =", "offset, logical ="),
    "one more argument": OURS.replace("room=16", "room=16, more=None"),
}


def only(source):
    """The text of the one function in it."""
    return [t for code in inside(compile(textwrap.dedent(source), "x", "exec")) if (t := text_of(code))]


@pytest.mark.parametrize("way", OTHERWISE)
def test_the_same_text(way):
    assert OTHERWISE[way] != OURS and only(OTHERWISE[way]) == only(OURS) != []


@pytest.mark.parametrize("way", CHANGED)
def test_another_text(way):
    assert CHANGED[way] != OURS and only(CHANGED[way]) != only(OURS)


def test_what_is_small_is_nobodys():
    assert only("def __len__(self):\n    return len(self.block_ids)") == []


@pytest.mark.parametrize("part", ANSWERS)
def test_no_answer_that_we_know_is_taken_for_a_copy_by_far(part, monkeypatch):
    """And each part has some text of ours that would be."""
    sources = [solved(part).source]
    sources += [a[part] for f in mutants_in(MUTANTS / part[:2], "**/*") if part in (a := answers_of(f))]
    codes = [code for source in sources for code in inside(compile(source, "answer", "exec"))]
    assert Refusing(ANSWERS[part])._texts
    monkeypatch.setattr(copied, "SIZE", 21)
    assert SIZE > 30
    texts_in.cache_clear()
    refusing = Refusing(ANSWERS[part])
    texts_in.cache_clear()
    assert {refusing.name_of(code) for code in codes} == {None}
