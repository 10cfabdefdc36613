"""How a learner's free queue is asked: operations one after the other, on blocks that count who looks at them."""

from __future__ import annotations

from typing import Any

from pagedlab.grading.plain import NOTHING_YET, attempt, failed, raised
from pagedlab.kv import KVCacheBlock

ENDLESS = 200_000


class CountedBlock(KVCacheBlock):
    """A block that counts how often somebody follows its links or compares it, and stops one who goes in circles."""

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

    __hash__ = KVCacheBlock.__hash__


def play(make: Any, case: dict) -> Any:
    """After each operation: its result, the queue, how many it says there are, and how often blocks were looked at."""
    blocks = [CountedBlock(i) for i in range(case["num_blocks"])]
    CountedBlock.looks = 0
    try:
        queue = make(list(blocks))
    except Exception as error:
        return failed(error)
    steps = []
    for name, what in case["operations"]:
        CountedBlock.looks = 0
        given = what if name == "popleft_n" else blocks[what] if name == "remove" else [blocks[i] for i in what]
        try:
            result = getattr(queue, name)(given)
            result = attempt(lambda taken=result: [block.block_id for block in taken]) if name == "popleft_n" else None
        except ValueError:
            result = "ValueError"
        except NotImplementedError:
            return {"raised": NOTHING_YET}
        except Exception as error:
            result = failed(error)
        looks, CountedBlock.looks = CountedBlock.looks, 0
        queued = attempt(lambda: [block.block_id for block in queue.get_all_free_blocks()])
        count = attempt(lambda: queue.num_free_blocks)
        steps.append({"result": result, "queue": queued, "count": count, "looks": looks})
    return steps


def queue(objects: dict[str, Any], case: dict) -> dict:
    steps = play(objects["FreeQueue"], case)
    return steps if raised(steps) else {"steps": steps}
