"""What a class misses, counted property by property, and the page that says so."""

import csv
import html
import re

import pytest

from pagedlab.grading.class_report import write
from pagedlab.grading.classroom import Graded, Refused
from pagedlab.grading.command import run
from pagedlab.grading.grade import IN_THE_NOTEBOOK, CheckResult, Result
from pagedlab.grading.part import load_exercise

NASTY = "<script>alert('x')</script>"


def result(broken, exercise="03", reason="expected: this; but that"):
    """A grade in which each part named in ``broken`` has the property with that name, or number, broken."""
    checks = []
    for part in load_exercise(exercise).parts:
        what = broken.get(part.name, "")
        what = part.properties[what].name if isinstance(what, int) else what
        earned = 0 if what else part.points
        checks.append(CheckResult(part.name, part.title, part.points, earned, reason if what else "", broken=what))
    return Result("x.ipynb", load_exercise(exercise).name, "2026-01-02T03:04:05+00:00", 1.5, 47, checks, [])


def a_class():
    """30 learners: 14 break the fifth property of 03.1, 3 of them the notebook's run of 03.2; 6 the first of 03.1."""
    graded = [Graded(f"learner{i:02}", result({"03.1": 4} if i < 14 else {})) for i in range(22)]
    graded[:3] = [Graded(one.learner, result({"03.1": 4, "03.2": IN_THE_NOTEBOOK})) for one in graded[:3]]
    graded += [Graded(f"late{i}", result({"03.1": 0, "03.4": "an answer"})) for i in range(6)]
    graded += [Graded(NASTY, result({"03.3": 2}, reason=f"expected: {NASTY}; but =1")), Graded("=cmd()", result({}))]
    graded += [Graded("zoe", result({"13.1": 0}, "13")), Graded("bea", Refused("b.ipynb", f"b.ipynb is {NASTY}."))]
    return graded


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    write(a_class(), out)
    return out


def rows_of(folder):
    return list(csv.DictReader((folder / "by_property.csv").open()))


def test_each_learner_is_counted_once_in_each_part_and_what_most_miss_comes_first(written):
    rows = rows_of(written)
    counts = [int(row["missed"]) for row in rows]
    assert counts == sorted(counts, reverse=True) and counts[:4] == [14, 6, 6, 3]
    first, parts = rows[0], load_exercise("03").parts
    assert first["property"] == parts[0].properties[4].name
    assert first["in words"] == f"14 of 30 miss: {first['property']}"
    assert (first["part"], first["passed"], first["not reached"], first["of"]) == ("03.1", "10", "6", "30")
    for row in rows:
        assert int(row["missed"]) + int(row["passed"]) + int(row["not reached"]) == int(row["of"])
    assert {row["of"] for row in rows if row["exercise"].startswith("13")} == {"1"}
    by_part = {row["property"]: row for row in rows if row["part"] == "03.2"}
    assert list(by_part)[0] == IN_THE_NOTEBOOK and by_part[IN_THE_NOTEBOOK]["passed"] == "27"
    assert {row["property"] for row in rows} >= {one.name for part in parts for one in part.properties}
    (answer,) = [row for row in rows if row["property"] == "an answer"]
    assert (answer["part"], answer["missed"], answer["passed"]) == ("03.4", "6", "24")


def test_the_page_holds_the_same_figures_stands_alone_and_escapes_everything(written):
    page = (written / "report.html").read_text()
    words = html.unescape(re.sub(r"\s+", " ", re.sub("<[^>]*>", "", page)))
    for row in rows_of(written):
        assert f"{row['in words']}" in words or row["missed"] == "0"
    assert "<script" not in page and "&lt;script" in page
    assert set(re.findall(r'(?:href|src)="(?!feedback/)([^"]*)"', page)) == {"grades.html", "by_property.csv"}
    assert "30 handed in" in words and "11 with 7" in html.unescape(page)


def test_a_class_in_which_nobody_misses_anything_hears_so_and_an_empty_one_has_a_page(tmp_path):
    write([Graded("ann", result({}))], tmp_path)
    assert "Nobody misses anything." in (tmp_path / "report.html").read_text()
    write([Graded("ann", Refused("x.ipynb", "no"))], tmp_path)
    assert "Nobody misses" not in (tmp_path / "report.html").read_text() and rows_of(tmp_path) == []


def test_what_could_not_be_run_is_nobodys_miss(tmp_path):
    part = load_exercise("05").parts[2]
    check = CheckResult(part.name, part.title, part.points, 0, not_run="no GPU")
    one = Result("x", load_exercise("05").name, "2026", 1.0, 47, [check], [])
    write([Graded("ann", one)], tmp_path)
    assert not [row for row in rows_of(tmp_path) if row["part"] == part.name]


@pytest.mark.slow
def test_the_report_of_real_submissions_names_what_the_judge_found(submission, tmp_path):
    solution = "# part 03.2\ndef slot_mapping(*args, **kwargs):\n    return None"
    for name in ("ann", "bob"):
        submission({"03.2": solution} | {f"03.{i}": f"# part 03.{i}\n1 / 0" for i in (1, 3, 4)}, name=f"c/{name}.ipynb")
    assert run([tmp_path / "c"], out=tmp_path / "out") == 0
    found = {(row["part"], row["property"]): row["missed"] for row in rows_of(tmp_path / "out")}
    assert found["03.2", load_exercise("03").parts[1].properties[0].name] == "2"
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("scheme, width", [("light", 1000), ("dark", 1000), ("dark", 360)])
def test_the_page_fits_a_screen_and_a_phone_in_light_and_dark(written, browser, artifacts, scheme, width):
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    page.goto((written / "report.html").as_uri())
    page.screenshot(path=artifacts / f"class-report-{scheme}-{width}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background)[:3])) < 128) == (scheme == "dark")
    page.close()
