"""Real logs, each with its right reading beside it, field by field."""

import json
import re
from pathlib import Path

import pytest

from pagedlab.explain.as_json import FIELDS, reading

LOGS = Path(__file__).parent / "logs"
NAMES = sorted(path.stem for path in LOGS.glob("*.log"))
# What the reading has from elsewhere: from the model's shape, from vLLM's source; "how" is prose.
NOT_IN_THE_LOG = {
    "rtx4090x2-v0-tp2-refused": {"smallest_worker_kv_gib"},
    "h20-019-hybrid-two-numbers": {"num_blocks", "block_size", "groups"},
}


def right(name: str) -> dict:
    return json.loads((LOGS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("field", ["source", "context", *FIELDS, "failure", "failure_detail", "runtime"])
def test_each_field_is_what_the_reading_says(read, name, field):
    log = read(name)
    assert reading(log.f, log.d, log.notes)[field] == right(name)[field]


@pytest.mark.parametrize("name", NAMES)
def test_what_follows_is_what_the_reading_says(read, name):
    log, wanted = read(name), right(name)["derived"]
    wanted = {key: value for key, value in wanted.items() if key not in {"how"} | NOT_IN_THE_LOG.get(name, set())}
    if "true_capacity_tokens" in wanted:  # of a concurrency with two digits
        assert log.d.get("true_capacity_tokens") == pytest.approx(wanted.pop("true_capacity_tokens"), rel=0.005 / 33)
    assert {key: log.d.get(key) for key in wanted} == wanted


def test_every_log_says_where_it_is_from_and_has_a_reading():
    assert len(NAMES) >= 13
    for name in NAMES:
        head = (LOGS / f"{name}.log").read_text().splitlines()[:4]
        assert [line.split(":")[0] for line in head[:3]] == ["# source", "# context", "# reading"], name
        assert right(name)["source"] == head[0].removeprefix("# source: ")


@pytest.mark.parametrize("name", NAMES)
def test_the_right_reading_above_a_log_is_not_what_is_read(read, name):
    """Without the remarks the figures are the same."""
    text = (LOGS / f"{name}.log").read_text()
    bare = read("\n".join(line for line in text.splitlines() if not re.match(r"# (?!\w+ blocks)", line)) + "\n")
    with_remarks = read(name)
    bare.f.source, bare.f.context = with_remarks.f.source, with_remarks.f.context
    assert bare.f == with_remarks.f


@pytest.mark.parametrize("name", NAMES)
def test_the_sums_are_right(read, name):
    checked = 0
    for check in read(name).d.checks:
        for left, wanted in re.findall(r"(?:^|, )([\d. x/*+-]+) = (\d[\d.]*)", check):
            value = eval(left.replace("x", "*"))  # noqa: S307 - digits and operators only
            value = value * 100 if check.endswith("%") else value
            digits = len(wanted.partition(".")[2])
            assert value == pytest.approx(float(wanted), abs=0.5 * 10**-digits + 0.0051), check
            checked += 1
    assert checked or not read(name).d.checks or "rounded up" in check


@pytest.mark.parametrize("name", NAMES)
def test_three_knobs_or_two_each_with_a_whole_sentence(read, name):
    knobs = read(name).knobs
    assert len(knobs) == 3
    assert all(knob.effect.endswith(".") and len(knob.effect.split()) > 3 for knob in knobs)
