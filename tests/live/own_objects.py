"""Memory as vLLM's own objects have it, to be held against memory as a trace tells it; and work that fills it."""

import random
from collections import Counter

from pagedlab.trace.invariants import broken
from pagedlab.trace.replay import MemoryState

SYSTEM = (
    "You are a patient librarian who knows every shelf of the building by heart. You name the floor, the room and the "
    "colour of the shelf before the title of a book, and you never speak of the weather, of money or of politics. "
)
WORDS = "page table frame block kernel queue river bridge market orange clock minute copy hole train coast".split()


def workload(seed, count):
    """(step at which it comes, prompt, settings) of each request: shared beginnings, short ones, long ones."""
    rng, step, work = random.Random(seed), 0, []
    for _ in range(count):
        step += rng.choice([0, 0, 1, 2, 3, 6])
        text = SYSTEM * (rng.random() < 0.6) + " ".join(rng.choices(WORDS, k=rng.randrange(5, 90)))
        ends = {"stop_token_ids": [28, 30, 198], "ignore_eos": True} if rng.random() < 0.3 else {"ignore_eos": True}
        work.append((step, text, {"max_tokens": rng.choice([1, 3, 12, 24, 40, 90]), **ends}))
    return work


class Twin:
    """A trace that is folded as it grows, beside the objects that it is of."""

    def __init__(self, driver, core):
        self.driver, self.scheduler = driver, core.scheduler
        self.pool = core.scheduler.kv_cache_manager.block_pool
        self.tables = core.scheduler.kv_cache_manager.coordinator.single_type_managers[0].req_to_blocks
        self.state, self.done, self.seen = MemoryState.of(driver.trace.header["config"]), 0, Counter()
        self.catch_up()

    def catch_up(self):
        events = self.driver.trace.events
        for event in events[self.done :]:
            self.state.apply(event)
            self.seen[event.kind] += 1
        self.done = len(events)

    def differences(self):
        """What the trace tells otherwise than the objects have it, and the rules that are broken."""
        self.catch_up()
        state, name = self.state, lambda request_id: request_id[:-9]  # vLLM puts "-" and eight digits behind a name
        theirs = {
            "tables": {name(r): [b.block_id for b in blocks] for r, blocks in self.tables.items() if blocks},
            "free": [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()],
            "ref_cnt": [0, *(block.ref_cnt for block in self.pool.blocks[1:])],
            "cached": {b.block_id: b.block_hash[:-4].hex() for b in self.pool.blocks if b.block_hash is not None},
            "running": [name(request.request_id) for request in self.scheduler.running],
            "waiting": [name(request.request_id) for request in self.scheduler.waiting],
            "tokens": {name(r): list(request.all_token_ids) for r, request in self.scheduler.requests.items()},
        }
        ours = {
            "tables": {request: table for request, table in state.tables.items() if table},
            "free": state.free,
            "ref_cnt": state.ref_cnt,
            "cached": state.cached,
            "running": state.running,
            "waiting": state.waiting,
            "tokens": {r: request.token_ids for r, request in state.requests.items() if request.status != "finished"},
        }
        unlike = [field for field in theirs if theirs[field] != ours[field]]
        return [f"{field}: {theirs[field]} in vLLM, {ours[field]} here" for field in unlike] + broken(state)


def serve(driver, core, seed, count):
    """Run a workload through the driver and hold the two against each other after every step. Returns the twin and how
    many moments were compared."""
    twin, work, step, moments = Twin(driver, core), workload(seed, count), 0, 0
    while work or driver.has_unfinished_requests():
        while work and work[0][0] <= step:
            _, prompt, settings = work.pop(0)
            driver.add_request(prompt, **settings)
        if driver.has_unfinished_requests():
            assert driver.step()
            assert twin.differences() == [], f"step {step} of workload {seed}"
            moments += 1
        step += 1
    return twin, moments
