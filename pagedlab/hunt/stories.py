"""Small workloads, one for each fault: what has to happen so that the fault shows.

Lengths come from the seed. A first request, W, comes and goes before everything else, so that the free queue is out of
order and block numbers tell nothing. ``llm`` runs with blocks of 4.
"""

from __future__ import annotations

import random
from typing import Any

from pagedlab.engine import SamplingParams

BLOCK_SIZE = 4
TEXTS = (
    "A lighthouse keeper counts the ships that pass at night and writes their names into a long grey book for a king.",
    "Bread needs flour, water, salt and time; most people forget the last of these four and wonder why it stays flat.",
    "Seven mountains stand around the lake, and on each of them a fire was lit when the long winter came to its end.",
    "Somebody left an umbrella in the train again, and nobody at the station can say whose it is or where they went.",
)


class Story:
    """Adds requests to ``llm`` and steps it. ``rng`` draws lengths."""

    def __init__(self, llm: Any, rng: random.Random) -> None:
        self.llm, self.rng = llm, rng
        self.usable = llm.num_blocks - (llm.config.era == "v1")

    def text(self, which: int, length: int) -> list[int]:
        """``length`` tokens. Different texts share no beginning."""
        tokens = self.llm.tokenizer.encode(TEXTS[which])
        return (tokens * (1 + length // len(tokens)))[:length]

    def add(self, name: str, tokens: list[int], max_tokens: int, **params: Any) -> None:
        self.llm.add_request(tokens, SamplingParams(max_tokens=max_tokens, ignore_eos=True, **params), request_id=name)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.llm.step()

    def until(self, *names: str) -> None:
        """Step until these are over."""
        while any(name in self.llm.groups for name in names):
            self.llm.step()

    def warm_up(self) -> None:
        self.add("W", self.text(3, self.rng.randint(2, 9)), self.rng.randint(1, 3))
        self.until("W")


def a_prompt_comes_again_after_a_flood(s: Story) -> None:
    """A; then B, which needs every block; then A's prompt again, as C."""
    s.warm_up()
    length = s.rng.randint(9, 11)
    s.add("A", s.text(0, length), s.rng.randint(2, 4))
    s.until("A")
    s.add("B", s.text(1, s.usable * BLOCK_SIZE - s.rng.randint(2, 3)), 2)
    s.until("B")
    s.add("C", s.text(0, length), 4)
    s.until("C")


def the_first_of_two_ends_early(s: Story) -> None:
    """A and B share a beginning; A ends; C comes and needs all that is free; B goes on."""
    s.warm_up()
    common = s.rng.randint(8, 11)
    s.add("A", s.text(0, common), s.rng.randint(2, 4))
    s.steps(1)
    s.add("B", [*s.text(0, common), *s.text(2, s.rng.randint(1, 3))], 14)
    s.until("A")
    free = s.llm.block_pool.get_num_free_blocks()
    s.add("C", s.text(1, free * BLOCK_SIZE - 6), 4)
    s.until("C")
    s.until("B")


def the_same_question_at_once(s: Story) -> None:
    """A's prompt fills whole blocks. B asks the same while A runs."""
    s.warm_up()
    prompt = s.text(0, 4 * s.rng.randint(2, 4))
    s.add("A", prompt, s.rng.randint(8, 12))
    s.steps(s.rng.randint(1, 4))
    s.add("B", prompt, 6)
    s.until("A", "B")


def three_answers(s: Story) -> None:
    """One prompt, three answers; its last block has room for two more tokens at least."""
    s.warm_up()
    length = 4 * s.rng.randint(1, 3) + s.rng.randint(1, 2)
    s.add("G", s.text(0, length), 6, n=3, temperature=1.0, top_k=20, seed=s.rng.randint(0, 99))
    s.until("G")


def an_old_prompt_and_a_shortage(s: Story) -> None:
    """A long prompt A ends. B needs a little more than what was never named. Then A's prompt again, as C."""
    s.warm_up()
    length = 4 * s.rng.randint(3, 4) + s.rng.randint(1, 3)
    s.add("A", s.text(0, length), s.rng.randint(1, 3))
    s.until("A")
    nameless = sum(b.block_hash is None for b in s.llm.block_pool.free_block_queue.get_all_free_blocks())
    named_before = _place_of_first(s, "A")
    s.add("B", s.text(1, (nameless + named_before + 1) * BLOCK_SIZE - s.rng.randint(2, 3)), 2)
    s.until("B")
    s.add("C", s.text(0, length), 3)
    s.until("C")


def _place_of_first(s: Story, name: str) -> int:
    """How many blocks with a name stand in the free queue before the first of those that ``name`` filled."""
    mine = {e.block_id for e in s.llm.trace.events if e.kind == "slot_written" and e.request_id == name}
    named = [b.block_id for b in s.llm.block_pool.free_block_queue.get_all_free_blocks() if b.block_hash is not None]
    return next(i for i, block_id in enumerate(named) if block_id in mine)


def it_is_found_but_does_not_fit(s: Story) -> None:
    """A comes and goes. B takes most of memory. C begins like A, and is too long to fit while B runs."""
    s.warm_up()
    common = 4 * s.rng.randint(2, 3)
    s.add("A", s.text(0, common + 1), s.rng.randint(1, 3))
    s.until("A")
    s.add("B", s.text(1, (s.usable - 6) * BLOCK_SIZE), 14)
    s.steps(s.rng.randint(1, 2))
    s.add("C", [*s.text(0, common), *s.text(2, 7 * BLOCK_SIZE)], 2)
    s.steps(4)


def three_grow_and_one_makes_room(s: Story) -> None:
    """A, B and C fill memory. One of them has to make room, B ends soon, and the one comes back while A runs."""
    s.warm_up()
    b_ends = s.rng.randint(7, 8)
    each = (s.usable * BLOCK_SIZE) // 3
    s.add("A", s.text(0, each - s.rng.randint(4, 6)), 24)
    s.add("B", s.text(1, each - s.rng.randint(4, 5)), b_ends)
    s.add("C", s.text(2, each - s.rng.randint(4, 5)), 10)
    s.until("A", "B", "C")


def a_reader_leaves_in_the_middle(s: Story) -> None:
    """A's prompt is computed in chunks that end inside a block. A gives up after the first. B asks the same."""
    s.warm_up()
    prompt = s.text(0, s.rng.randint(14, 17))
    s.add("A", prompt, 4)
    s.steps(1)
    s.llm.abort_request("A")
    s.add("B", prompt, 4)
    s.until("B")
