"""The points of the two parts of the course are counted apart, and everywhere in the same way."""

import csv

from pagedlab.grading import class_table, report
from pagedlab.grading.classroom import Graded
from pagedlab.grading.grade import CheckResult, Result
from pagedlab.grading.part import EXERCISES, PART_NAMES, load_exercise


def a_result(number, earned, points=8):
    checks = [CheckResult(f"{number}.1", "a check", points, earned, "" if earned else "no")]
    name = load_exercise(number).name
    return Result(f"{name}.ipynb", name, "2026-01-02T03:04:05+00:00", 1.5, 47, checks, [])


BOTH = [Graded("ann", a_result("03", 3)), Graded("ann", a_result("15", 2)), Graded("bob", a_result("15", 8))]


def test_part_one_has_100_points_and_part_two_at_most_50():
    points = dict.fromkeys(PART_NAMES, 0)
    for number in EXERCISES:
        points[load_exercise(number).course_part] += load_exercise(number).points
    assert points[1] == 100 and 8 <= points[2] <= 50


def test_an_exercise_of_part_two_says_so_and_the_first_twelve_do_not():
    assert {n: load_exercise(n).course_part for n in EXERCISES} == {n: 1 if n <= "12" else 2 for n in EXERCISES}


def test_the_last_lines_say_each_learners_points_in_sentences():
    *_, ann, bob = report.closing_lines(BOTH).splitlines()
    assert ann == "ann: 3 of 8 points in part one. 2 of 8 points in part two, which is counted apart."
    assert bob == "bob: 8 of 8 points in part two, which is counted apart."


def test_whoever_has_nothing_of_part_two_hears_nothing_of_it():
    assert report.closing_lines(BOTH[:1]).splitlines()[-1] == "1 of 1 notebooks graded"
    head, [row] = class_table.table(class_table.by_learner(BOTH[:1]))
    assert "part two" not in head and row[head.index("total")] == 3


def test_the_class_table_has_a_column_for_each_and_says_what_the_total_is_of(tmp_path):
    class_table.write(BOTH, tmp_path)
    ann, bob = csv.DictReader((tmp_path / "grades.csv").open())
    assert (ann["total"], ann["of"], ann["part two"], ann["of part two"]) == ("3", "10", "2", "8")
    assert (bob["total"], bob["part two"]) == ("0", "8")
    assert class_table.APART in (tmp_path / "grades.html").read_text()


def test_a_class_that_hands_in_part_two_only_has_no_total_of_part_one(tmp_path):
    class_table.write(BOTH[1:], tmp_path)
    head = next(csv.reader((tmp_path / "grades.csv").open()))
    assert "total" not in head and "part two" in head
    assert class_table.APART not in (tmp_path / "grades.html").read_text()


def test_programs_are_told_too():
    import json

    assert [one["course_part"] for one in json.loads(report.as_json(BOTH))] == [1, 2, 2]
