"""Contrast and colours, computed from the style sheet that the browser uses."""

import itertools
import math
import re

import pytest

from pagedlab.viz.kit.labels import NUM_HUES
from pagedlab.viz.kit.script import script
from pagedlab.viz.kit.style import STATIC, palette, resolve

# How the three kinds of colour blindness see linear RGB (Machado, Oliveira, Fernandes 2009, severity 1.0).
SEEN_BY = {
    "everyone": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
THEMES = ("light", "dark")


def linear(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def mixed(front, back, share):
    return "#" + "".join(
        f"{round(int(front[i : i + 2], 16) * share + int(back[i : i + 2], 16) * (1 - share)):02x}" for i in (1, 3, 5)
    )


def luminance(color):
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(color), strict=True))


def contrast(a, b):
    """WCAG 2's contrast ratio of two colours."""
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def lab(rgb):
    r, g, b = (max(0.0, min(1.0, c)) for c in rgb)
    xyz = (
        (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047,
        0.2126729 * r + 0.7151522 * g + 0.0721750 * b,
        (0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / 1.08883,
    )
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(a, b, matrix):
    """CIE76 colour difference, as somebody with this matrix sees it; 2.3 is just noticeable."""
    seen = ([sum(m * c for m, c in zip(row, linear(color), strict=True)) for row in matrix] for color in (a, b))
    return math.dist(*map(lab, seen))


@pytest.mark.parametrize("theme", THEMES)
def test_all_text_has_a_contrast_of_at_least_4_5(theme):
    c = palette(theme)
    for back in ("back", "panel", "dead"):
        assert contrast(c["ink"], c[back]) >= 4.5
        assert contrast(c["soft"], c[back]) >= 4.5, back
    for back in ("back", "panel"):
        assert contrast(c["alarm"], c[back]) >= 4.5
    for i in range(NUM_HUES):
        hue = c[f"c{i}"]
        assert contrast(hue, c["back"]) >= 4.5, f"c{i} as text"
        assert contrast(hue, c["panel"]) >= 4.5, f"c{i} as text on a chip"
        assert contrast(c["on-hue"], hue) >= 4.5, f"text on c{i}"
        share = float(resolve(["cell", "dim", f"c{i}"], theme)["fill-opacity"])
        assert contrast(c["ink"], mixed(hue, c["back"], share)) >= 4.5, f"a letter on a dimmed c{i}"


@pytest.mark.parametrize("theme", THEMES)
def test_the_ring_around_what_has_the_focus_is_seen_on_everything(theme):
    """It is a line on a wider one of the page's colour, so it stands beside that, whatever lies under the two."""
    c = palette(theme)
    assert contrast(c["focus"], c["back"]) >= 4.5 and contrast(c["focus"], c["panel"]) >= 3
    css = (STATIC / "lab.css").read_text(encoding="utf-8")
    below, line = re.search(r"\.ring rect \{([^}]*)\}", css)[1], re.search(r"\.ring rect \+ rect \{([^}]*)\}", css)[1]
    assert "var(--back)" in below and "var(--focus)" in line
    wide = [float(re.search(r"stroke-width: (\d+)px", rule)[1]) for rule in (below, line)]
    assert wide[1] >= 2 and wide[0] - wide[1] >= 4  # at least two pixels at either side
    beside = re.search(r"pagedlab-controls :focus-visible.*?light-dark\((#\w+), (#\w+)\)", css, flags=re.S)
    assert dict(zip(THEMES, beside.groups(), strict=True))[theme] == c["focus"]  # the controls have the same


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("eyes", SEEN_BY)
def test_the_hues_differ_for_everyone(theme, eyes):
    c = palette(theme)
    hues = [c[f"c{i}"] for i in range(NUM_HUES)]
    worst = {n: min(distance(a, b, SEEN_BY[eyes]) for a, b in itertools.combinations(hues[:n], 2)) for n in (4, 6, 8)}
    assert worst[4] >= 20 and worst[6] >= 15 and worst[8] >= 10, worst


def test_both_themes_define_every_colour_that_a_rule_uses():
    css = (STATIC / "lab.css").read_text(encoding="utf-8")
    used = set(re.findall(r"var\(--([\w-]+)\)", css)) - {"hue", "hatch"}
    assert used <= set(palette("light")) and used <= set(palette("dark"))


def test_the_front_end_is_one_module_and_one_style_sheet_and_fetches_nothing():
    files = {path.name: path.read_text(encoding="utf-8") for path in STATIC.iterdir() if path.is_file()}
    assert [name for name in files if not name.endswith(".js")] == ["lab.css"]
    modules = {entry: script(entry) for entry in ("lab.js", "page.js")}
    for name, text in (files | modules).items():
        for word in ("fetch(", "XMLHttpRequest", "@import", "https:", "url(http"):
            assert word not in text, (name, word)
    for entry, text in modules.items():  # nothing is left to be imported, and no file left out
        assert not re.search(r"^(import|export (?!default))", text, flags=re.M), entry
        for name in files.keys() - modules.keys() - {"lab.css"}:
            is_in = files[name].splitlines()[0] in text
            # A query is run once more by pages alone: in a notebook the kernel can do it.
            assert is_in == (entry == "page.js" or name != "again.js"), (entry, name)


def test_charts_have_the_hues_of_the_labs_and_are_seen_on_both_themes():
    from pagedlab.viz.charts import COLORS

    assert len(COLORS) == NUM_HUES
    for i, color in enumerate(COLORS):
        ends = [palette(theme)[f"c{i}"] for theme in THEMES]
        assert all(min(a, b) - 1 <= c <= max(a, b) for a, b, c in zip(*map(channels, [*ends, color]), strict=True))
        assert min(contrast(color, palette(theme)["back"]) for theme in THEMES) >= (3 if i < 5 else 2.7), color
    for eyes in SEEN_BY.values():
        assert min(distance(a, b, eyes) for a, b in itertools.combinations(COLORS[:4], 2)) >= 12


def channels(color):
    return [int(color[i : i + 2], 16) for i in (1, 3, 5)]
