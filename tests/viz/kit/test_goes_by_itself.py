"""A lab of a run that goes on by itself goes with it, where its reader stands at the end."""

import asyncio
import gc
import weakref

from pagedlab import LLM, SamplingParams
from pagedlab.trace import TraceDriver
from pagedlab.viz import memory_map
from pagedlab.viz.kit import driver_lab


class Moving(TraceDriver):
    moves = True


def test_it_stays_at_the_end_and_leaves_who_looks_back_alone(monkeypatch, no_running_loop):
    monkeypatch.setattr(driver_lab, "LOOK", 0.01)
    llm = LLM("tiny-random", record=True, block_size=4, num_gpu_blocks_override=16)
    llm.add_request("a run", SamplingParams(max_tokens=9, ignore_eos=True))
    llm.step()

    async def watch():
        lab = memory_map(Moving(llm.trace))
        assert (lab.position, lab.num_steps) == (1, 1)
        for _ in range(3):
            llm.step()
        await asyncio.sleep(0.1)
        assert lab.position == lab.num_steps == 4
        lab.back(2)
        llm.step()
        await asyncio.sleep(0.1)
        assert (lab.position, lab.num_steps) == (2, 5)
        lab.seek(5)
        llm.step()
        await asyncio.sleep(0.1)
        assert lab.position == 6
        gone = weakref.ref(lab)
        lab.close()
        del lab
        gc.collect()
        await asyncio.sleep(0.1)
        assert gone() is None, "the loop must not keep it alive"
        assert not driver_lab._going

    asyncio.run(watch())
