"""A workload that leaves no rule untried: a small pool, prompts that begin alike, requests that come at any time."""

from __future__ import annotations

import random
from typing import Any

from pagedlab.engine import SamplingParams
from pagedlab.hunt.stories import TEXTS

KNOBS = {"block_size": 4, "num_gpu_blocks_override": 22}


def stress(llm: Any, seed: int = 0, num_requests: int = 12) -> dict[str, list[int]]:
    """Let ``num_requests`` requests come and go, until all are over. Returns what each said, token ids by request.

    ``llm``: a recording engine with few blocks (``KNOBS``). In the paper's era every second prompt wants two answers.
    """
    rng = random.Random(f"stress {seed}")
    paper = llm.config.era == "paper"
    texts = [llm.tokenizer.encode(text) for text in TEXTS]
    starts = [texts[0][: rng.randint(9, 14)], texts[1][: rng.randint(5, 10)]]
    left = num_requests
    while left or llm.has_unfinished_requests():
        while left and (rng.random() < 0.45 or not llm.has_unfinished_requests()):
            tokens = [*rng.choice(starts), *rng.choice(texts[2:])[: rng.randint(1, 8)]]
            n = 2 if paper and left % 2 else 1
            drawn = {"n": n, "temperature": 1.0, "seed": left} if n > 1 else {}
            llm.add_request(tokens, SamplingParams(max_tokens=rng.randint(4, 16), ignore_eos=True, **drawn))
            left -= 1
        llm.step()
    sampled: dict[str, list[int]] = {}
    for event in llm.trace.events:
        if event.kind == "token_sampled":
            sampled.setdefault(event.request_id, []).append(event.token_id)
    return sampled
