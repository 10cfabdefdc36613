"""The SVG and the text picture."""

import re
import xml.etree.ElementTree as ET

import pytest
from runs import crowded, recorded_run

from pagedlab.trace import TraceDriver
from pagedlab.viz.memory.lab import memory_map
from pagedlab.viz.memory.text import draw

HOSTILE = [
    "<",
    "&",
    "</text>",
    "]]>",
    '"',
    "'",
    "\x00",
    "\x1b[31m",
    "\ud800",
    "\ufffe",
    "🙂",
    "👩‍👩‍👧",
    "שלום",
    "\u202eabc",
    "ｗｉｄｅ",
    "a" * 300,
    "\t",
    "\r\n",
    " ",
    "é",
]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("block_size", [1, 4, 16, 64])
def test_the_svg_is_valid_xml_whatever_the_tokens_are(theme, block_size):
    trace = recorded_run([list(range(20)), list(range(10, 20))], words=HOSTILE, block_size=block_size, num_blocks=64)
    lab = memory_map(trace)
    while lab.forward():
        svg = lab.svg(theme)
        svg.encode("utf-8")
        root = ET.fromstring(svg)
        assert root.tag.endswith("svg") and len(root) > 20
        assert "var(" not in svg and "light-dark" not in svg


def test_hostile_request_names_are_harmless():
    names = ["<b>&\"'", "\x00\x01", "a.b", "A.name"]
    lab = memory_map(recorded_run([[1, 2, 3]] * 4, names=names))
    for name in names:
        lab.select(name)
        ET.fromstring(lab.svg())
        assert not re.search("[\x00-\x08]", lab.text())


def test_the_svg_needs_nothing_from_outside_and_brings_its_background():
    svg = memory_map(crowded()).svg()
    assert "href" not in svg and "@import" not in svg and svg.count("http") == 1  # the name of the SVG namespace
    first = ET.fromstring(svg).find("{http://www.w3.org/2000/svg}rect")
    assert first.get("fill") == "#ffffff" and float(first.get("width")) > 950


def test_the_svg_stays_small_enough_for_a_stored_notebook():
    assert len(memory_map(crowded()).svg()) < 40_000


def text_at(trace, position, **options):
    driver = TraceDriver(trace)
    driver.seek(position)
    first = driver.num_events(position - 1) if position else 0
    events = trace.events[first : driver.num_events(position)]
    return draw(driver.state(), events, trace.header, position=position, num_steps=driver.num_steps, **options)


@pytest.mark.parametrize("block_size,num_blocks", [(1, 30), (4, 12), (16, 12), (16, 256), (256, 8)])
def test_the_text_picture_keeps_to_80_columns(block_size, num_blocks):
    trace = recorded_run([list(range(24)), list(range(5))], block_size=block_size, num_blocks=num_blocks, max_tokens=4)
    for position in range(TraceDriver(trace).num_steps + 1):
        text = text_at(trace, position)
        assert all(len(line) <= 80 for line in text.splitlines()), text
        assert "\x1b" not in text


def test_the_text_picture_shows_table_pool_and_story():
    text = text_at(recorded_run([list(range(9))]), 1)
    for part in (
        "A: 9 tokens in 3 blocks, 3 slots left",
        "0 → #1",
        "4/4",
        "1/4",
        "#3   A █",
        "next",
        "Next free: #4 → #5",
        "Prefill wrote A's 9 tokens",
    ):
        assert part in text, text


def test_colour_changes_nothing_but_colour():
    trace = crowded()
    for position in range(TraceDriver(trace).num_steps + 1):
        plain, colored = text_at(trace, position), text_at(trace, position, color=True)
        assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain
    assert "\x1b[" in text_at(trace, 2, color=True)
