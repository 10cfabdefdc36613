"""A part that this machine cannot run costs nothing and gives nothing: its points are counted apart."""

from dataclasses import replace

from pagedlab.grading.exercises import ex03
from pagedlab.grading.grade import grade
from pagedlab.grading.report import as_text


def test_a_part_that_cannot_run_here_is_counted_apart(submission, monkeypatch):
    parts = [
        replace(part, missing=lambda: "it takes another machine") if part.name == "03.4" else part
        for part in ex03.EXERCISE.parts
    ]
    monkeypatch.setattr(ex03, "EXERCISE", replace(ex03.EXERCISE, parts=tuple(parts)))
    result = grade(submission({"03.3": "# part 03.3\ntable_after_prefill = tokens_in_block = []"}), with_nbval=False)
    assert (result.earned, result.points, result.points_not_run) == (6, 8, 2)
    text = as_text(result)
    assert "· 03.4  2 apart" in text and "not run here: it takes another machine" in text
    assert "6 of 8 points (2 more were not run here)" in text
