"""Cases of which one half decides and the other half is new each time.

No grade may hang on the draw. So what a part draws is drawn twice: once from a seed of its own, the same in every
check, and once afresh, against answers that know the cases.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import chain
from typing import Any


def twice(draw: Callable[[random.Random], list[Any]], rng: random.Random, name: str) -> list[Any]:
    """The cases of ``draw``, those of ``name``'s own seed and those of ``rng`` in turns, so that the smallest stay
    first. ``draw`` gives the same number of cases each time."""
    return list(chain.from_iterable(zip(draw(random.Random(name)), draw(rng), strict=True)))
