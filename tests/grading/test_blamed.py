"""Each wrong answer is told of the property that it breaks, in every draw; a right one passes in every draw."""

import random

import pytest
from blamed import blames, judged, objects_of, verdict
from submissions import MUTANTS, answers_of, loses

from pagedlab.grading.part import load_exercise

BLAMED = {file.parent for file in MUTANTS.glob("*/wrong_*.py") if blames(file)}
FILES = [file for file in sorted(MUTANTS.glob("*/*.py")) if file.parent in BLAMED]
ERRORS = "no call of your code ends in an error"
DRAWS = 2  # the cases that decide are always there


@pytest.mark.slow
@pytest.mark.parametrize("mutant", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_wrong_answer_is_told_of_the_property_that_it_breaks_and_a_right_one_passes(mutant):
    expected = {part: {blames(mutant).get(part, "")} for part in {*loses(mutant), *answers_of(mutant)} - {"added"}}
    assert judged(mutant, DRAWS) == expected


@pytest.mark.parametrize("number", sorted({file.parent.name for file in FILES}))
def test_every_blame_is_a_promise_of_its_part(number):
    parts = {part.name: [prop.name for prop in part.properties] for part in load_exercise(number).parts}
    for file in FILES:
        for part, promise in blames(file).items():
            assert part[:2] != number or promise in (*parts[part], ERRORS), file


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted({file.parent.name for file in FILES}))
def test_the_example_of_a_broken_property_says_what_was_found(number):
    for file in FILES:
        if file.parent.name == number:
            objects = objects_of(number, answers_of(file))
            for part in map(load_exercise(number).part, loses(file)):
                told = verdict(part, objects, random.Random(1))
                assert 10 < len(told.example) < 1200 and told.hints, (file, told)
