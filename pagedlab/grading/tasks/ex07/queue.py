"""How a learner's free queue is asked: operations one after the other, on blocks that count who looks at them."""

from __future__ import annotations

import sys
from typing import Any

from pagedlab.grading.plain import NOTHING_YET, attempt, failed
from pagedlab.kv import KVCacheBlock

ENDLESS = 5_000


class CountedBlock(KVCacheBlock):
    """A block that counts how often somebody follows its links, compares it or looks it up. Whoever goes in circles is
    stopped."""

    looks = 0

    @classmethod
    def look(cls) -> None:
        cls.looks += 1
        if cls.looks > ENDLESS:
            raise RuntimeError("the links go round in a circle")

    @property
    def prev_free_block(self) -> KVCacheBlock | None:
        self.look()
        return self._before

    @prev_free_block.setter
    def prev_free_block(self, block: KVCacheBlock | None) -> None:
        self._before = block

    @property
    def next_free_block(self) -> KVCacheBlock | None:
        self.look()
        return self._after

    @next_free_block.setter
    def next_free_block(self, block: KVCacheBlock | None) -> None:
        self._after = block

    def __eq__(self, other: object) -> bool:
        self.look()
        return self is other

    def __hash__(self) -> int:
        self.look()
        return object.__hash__(self)


def play(make: Any, case: dict) -> Any:
    """The queue as it is made, and after each operation: its result, the queue (forwards and, where it is made of
    links, backwards), how many it says there are, what became of the list that was handed in, and how often blocks
    were looked at. ``beside``: the queue when a second one has just been made, and ``other``: that one in the end."""
    blocks = [CountedBlock(i) for i in range(case["num_blocks"])]
    CountedBlock.looks = 0
    try:
        queue = make(list(blocks))
        steps = [_now(queue, blocks)]
        other = make([CountedBlock(i) for i in range(2)])
    except Exception as error:
        return failed(error)
    beside = _now(queue, blocks)["queue"]
    for name, what in case["operations"]:
        CountedBlock.looks = 0
        given = what if name == "popleft_n" else blocks[what] if name == "remove" else [blocks[i] for i in what]
        lines = Lines(case["num_blocks"])
        try:
            with lines:
                result = getattr(queue, name)(given)
            result = attempt(lambda taken=result: _ids(taken, blocks)) if name == "popleft_n" else None
        except ValueError:
            result = "ValueError"
        except NotImplementedError:
            return {"raised": NOTHING_YET}
        except Exception as error:
            result = failed(error)
        looks = CountedBlock.looks + lines.count
        kept = _ids(given, blocks) if type(given) is list else None
        steps.append({"result": result, "looks": looks, "given": kept} | _now(queue, blocks))
    CountedBlock.looks = 0
    others = attempt(lambda: [block.block_id for block in other.get_all_free_blocks()])
    return {"steps": steps, "beside": beside, "other": others}


class Lines:
    """Counts the lines that run, where there are many blocks: a walk need not touch a block to be one."""

    def __init__(self, num_blocks: int) -> None:
        self.count, self._on = 0, num_blocks > 100

    def _see(self, frame: Any, event: str, arg: Any) -> Any:
        self.count += event == "line"
        return self._see

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        if self._on:
            sys.settrace(self._see)

    def __exit__(self, *_: object) -> None:
        if self._on:
            sys.settrace(self._before)


def _ids(taken: Any, blocks: list[CountedBlock]) -> list[Any]:
    """The blocks' numbers. A block that is not the very one of this number is called a copy."""
    return [block.block_id if block is blocks[block.block_id] else f"a copy of {block.block_id}" for block in taken]


def _now(queue: Any, blocks: list[CountedBlock]) -> dict:
    CountedBlock.looks = 0
    queued = attempt(lambda: _ids(queue.get_all_free_blocks(), blocks))
    count = attempt(lambda: queue.num_free_blocks)
    inside = queued if type(queued) is list else range(len(blocks))
    out = [block for block in blocks if block.block_id not in inside]
    linked = [block.block_id for block in out if not block._before is block._after is None]
    return {"queue": queued, "count": count, "back": _backwards(queue, queued), "linked": linked}


def _backwards(queue: Any, queued: Any) -> list[Any] | None:
    """The queue from its tail on; None for a queue that is made of something else than links from head to tail."""

    def walk(end: str, link: str) -> list[int]:
        found, block = [], getattr(getattr(queue, end), link)
        while len(found) <= len(queued) and block is not None and block.block_id >= 0:
            found.append(block.block_id)
            block = getattr(block, link)
        return found

    try:
        return walk("tail", "prev_free_block") if walk("head", "next_free_block") == queued else None
    except (AttributeError, TypeError, RuntimeError):
        return None


def queue(objects: dict[str, Any], case: dict) -> dict:
    return play(objects["FreeQueue"], case)
