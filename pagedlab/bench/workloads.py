"""What the engine's benchmarks run: lists of token ids, the same for everybody who takes part.

Token ids are drawn at random: what a token says does not change what it costs. Every round gets prompts of its own, so
that nobody finds the prompts of the round before in a prefix cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from pagedlab.errors import PagedlabError


@dataclass(frozen=True)
class Workload:
    """Requests that arrive together. ``lengths``: tokens of each prompt, of which the first ``shared`` are the same in
    all; ``new``: tokens that each one gets as its answer."""

    name: str
    words: str
    lengths: tuple[int, ...]
    new: int
    shared: int = 0

    def prompts(self, vocab_size: int, seed: int) -> list[list[int]]:
        rng = Random(f"{self.name} {seed}")
        common = [rng.randrange(vocab_size) for _ in range(self.shared)]
        return [common + [rng.randrange(vocab_size) for _ in range(n - self.shared)] for n in self.lengths]

    @property
    def num_new_tokens(self) -> int:
        return self.new * len(self.lengths)

    @property
    def longest(self) -> int:
        """Tokens of the longest request, prompt and answer together: what a model needs room for."""
        return max(self.lengths) + self.new


# 16 lengths from 32 to 256, evenly spread and out of order.
_MIXED = tuple(32 + 224 * ((7 * i) % 16) // 15 for i in range(16))

WORKLOADS = {
    "a": Workload("a", "one sequence: 16 tokens, then 64 new ones", (16,), 64),
    "b": Workload("b", "16 prompts of 32 to 256 tokens, 32 new ones each", _MIXED, 32),
    "c": Workload("c", "16 requests: a common prompt of 512 tokens, 16 of their own, 16 new", (528,) * 16, 16, 512),
}


def check_room(cases: str, model: str, max_model_len: int) -> None:
    """Raises PagedlabError where a case's longest request is longer than the model allows."""
    fit = "".join(name for name, workload in WORKLOADS.items() if workload.longest <= max_model_len)
    for name in cases:
        if name not in fit:
            raise PagedlabError(
                f"Case {name} needs {WORKLOADS[name].longest} tokens, and {model} has room for {max_model_len}. "
                + (f"Take --cases {fit}, or a larger model." if fit else "Take a larger model.")
            )
