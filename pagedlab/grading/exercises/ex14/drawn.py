"""Tables and pools as they are in the middle of a run, drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence

NULL = 0


def num_out(computed: int, window: int | None, block_size: int) -> int:
    """How many blocks at the start of a table hold only tokens that no later token looks at: the next one, at position
    ``computed``, looks at ``window`` tokens, itself included."""
    first_seen = 0 if window is None else max(0, computed + 1 - window)
    return first_seen // block_size


def table_of(
    rng: random.Random, ids: list[int], computed: int, window: int | None, block_size: int, *, ahead: int = 0
) -> list[int]:
    """A table that holds ``computed`` tokens, and ``ahead`` blocks behind them; its ids are taken from ``ids``. What an
    earlier call has given back is null: none of what is out by now, some of it, or all."""
    length = -(-computed // block_size) + ahead
    gone = rng.randint(0, num_out(computed, window, block_size))
    return [NULL] * gone + [ids.pop() for _ in range(length - gone)]


def pool_of(
    rng: random.Random, computed: int, windows: Sequence[int | None], block_size: int, num_free: int
) -> dict[str, list]:
    """Tables, free queue and the blocks that have a hash. A block's place in the queue is as in a pool that lives:
    those without a hash stand first."""
    most = len(windows) * (computed // block_size + 3) + num_free
    ids = rng.sample(range(1, most + 1), most)
    ahead = rng.random() < 0.15  # slots for drafts that were not taken
    tables = [table_of(rng, ids, computed, window, block_size, ahead=int(ahead)) for window in windows]
    queue = [ids.pop() for _ in range(num_free)]
    full = [block for table in tables for block in table[: computed // block_size] if block != NULL]
    named = [block for block in full if rng.random() < 0.6] + queue[rng.randint(0, num_free) :]
    return {"tables": tables, "queue": queue, "named": sorted(named)}
