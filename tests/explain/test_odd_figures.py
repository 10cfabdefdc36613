"""Figures that no vLLM prints: whatever stands in a log, the reading has an end and no traceback."""

import re
from pathlib import Path

import pytest

from pagedlab.explain.as_json import as_json
from pagedlab.explain.report import report

LINES = [
    line for path in sorted((Path(__file__).parent / "logs").glob("*.log")) for line in path.read_text().splitlines()
    if not line.startswith("# ")
]  # fmt: skip


@pytest.mark.parametrize("figure", ["0", "0.0", "1", "-1", "9" * 9, "9" * 400, "1.2.3", "1,000", "0.01", ""])
@pytest.mark.parametrize("start", range(0, len(LINES), 6))
def test_any_figure_in_any_line(read, figure, start):
    text = "GPU KV cache size: 16 tokens\n"
    for line in LINES[start : start + 6]:
        head, colon, rest = line.partition("] ")  # the header stays
        text += head + colon + re.sub(r"(?<![\w.])\d[\d,.]*\d|(?<![\w.])\d", figure, rest) + "\n"
    log = read(text)
    assert list(report(log.f, log.d, log.card, log.knobs, log.notes))
    assert as_json(log.f, log.d, log.notes)
