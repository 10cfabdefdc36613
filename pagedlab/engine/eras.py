"""The eras that an engine may live in, by the name of the knob ``era``."""

from __future__ import annotations

from pagedlab.engine.paper import Paper
from pagedlab.engine.v1 import V1

ERAS = {"v1": V1(), "paper": Paper()}
