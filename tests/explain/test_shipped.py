"""The logs that come with the package."""

from pathlib import Path

import pytest

from pagedlab.errors import PagedlabError
from pagedlab.explain.shipped import FOLDER, shipped_log

LOGS = Path(__file__).parent / "logs"
SHIPPED = sorted(file.stem for file in FOLDER.glob("*.log"))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_log_is_the_one_whose_reading_is_tested(name):
    assert shipped_log(name).read_bytes() == (LOGS / f"{name}.log").read_bytes()


@pytest.mark.parametrize("name", ["no-such-log", "", "../shipped", None])
def test_a_log_that_is_not_there_is_refused_with_those_that_are(name):
    with pytest.raises(PagedlabError, match="a100-031-start"):
        shipped_log(name)
