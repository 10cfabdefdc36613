"""Whose randomness is it? Each answer has a seed of its own; how a token is drawn with it is the executor's part."""

from __future__ import annotations

from pagedlab.executor.abstract import hashed


def answer_seed(seed: int, index: int) -> int:
    """The seed of answer ``index`` to a prompt whose own is ``seed``: the first one's is the prompt's.

    The others are hashed from both numbers. Adding them up, as vLLM does (``v1/engine/parallel_sampling.py``), gives
    answer 1 of seed 5 the draws of answer 0 of seed 6.
    """
    return hashed(f"{seed}/{index}") if index else seed


def request_seed(seed: int, number: int) -> int:
    """The seed of an engine's request ``number`` that came without one: the first one's is the engine's ``seed``."""
    return hashed(f"request {number} of {seed}") if number else seed
