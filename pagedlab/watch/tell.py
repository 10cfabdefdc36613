"""From the notes of ``hooks.py`` to events of a trace: the same kinds, with the same meaning, as of our own engine.

Where vLLM schedules one step ahead, schedule k+1 comes before update k, and the tokens that batch k+1 writes are not
all known when it is planned. What schedule k+1 does is therefore held back until update k has brought the tokens of
batch k; then it is told, with what it writes, before what update k frees: the order in which the device does it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from pagedlab.trace import events as ev
from pagedlab.trace.recorder import Recorder
from pagedlab.watch.hooks import Note

Batch = list[tuple[str, int, int, list[int]]]  # request, its first position and the one after its last, their blocks

RANDOM_END = re.compile("(?<=.)-[0-9a-f]{8}$")  # v1/engine/input_processor.py, assign_request_id


class Teller:
    """``piece``: a token's own text. ``sources``: by method of vLLM's, where it is written."""

    def __init__(self, recorder: Recorder, piece: Callable[[int], str], sources: dict[str, str]) -> None:
        header = recorder.trace.header
        self.step = 0
        self._emit_now = recorder.emit
        self._size = header["config"]["block_size"]
        self._piece = piece
        self._ahead = header["async_scheduling"]
        self._sources = sources
        self._device = header["device"]
        self._names: dict[str, str] = {}  # vLLM's id of a request -> the name that it has in the trace
        self._known: dict[str, list[int]] = {}  # by vLLM's id: the tokens of each unfinished request
        self._running: set[str] = set()
        self._hashes: dict[int, str] = {}  # block -> the hash that it has
        self._flights: deque[Batch] = deque()  # scheduled, and not taken in yet
        self._held: list[ev.Event] | None = None
        self._open = False
        self.missed = 0  # messages, since the last one that was told
        self._started = 0.0
        self._written_tokens = 0

    def tell(self, notes: Iterable[Note]) -> None:
        for kind, *rest in notes:
            getattr(self, f"_{kind}")(*rest)

    def _emit(self, event: ev.Event) -> None:
        if self._held is None:
            self._emit_now(event)
        else:
            self._held.append(event)

    # ------------------------------------------------------------------------------------------------------- steps

    def _schedule(self, at: float) -> None:
        if self._flights:
            self._held = []
        self._begin(at, self._sources["schedule"])

    def _begin(self, at: float, source: str) -> None:
        self.step += 1
        self._open, self._started, self._written_tokens = True, at, 0
        self._emit(ev.StepStarted(step=self.step, source=source))

    def _scheduled(self, batch: Batch, at: float) -> None:
        for request_id, start, _, _ in batch:
            if request_id not in self._running:
                self._running.add(request_id)
                name, source = self._names[request_id], self._sources["schedule"]
                self._emit(ev.RequestAdmitted(request_id=name, num_computed_tokens=start, source=source))
        self._flights.append(batch)
        if self._held is None:
            self._write(batch)
            if self._ahead:  # the first batch is under way, and nothing is to be taken in yet
                self._end(at, self._sources["schedule"])

    def _update(self, sampled: list[tuple[str, list[int]]]) -> None:
        if self._flights:
            self._flights.popleft()
        held, self._held = self._held, None
        for request_id, tokens in sampled:
            known = self._known[request_id]
            for token in tokens:
                self._emit(
                    ev.TokenSampled(
                        request_id=self._names[request_id],
                        position=len(known),
                        token_id=token,
                        text=self._piece(token),
                        source=self._sources["sample_tokens"],
                    )
                )
                known.append(token)
        for event in held or ():
            self._emit(event)
        if held is not None and self._flights:
            self._write(self._flights[-1])

    def _updated(self, at: float) -> None:
        source = self._sources["update_from_output"]
        if not self._open:  # the last batch, after which nothing was scheduled
            self._begin(at, source)
        self._end(at, source)

    def _end(self, at: float, source: str) -> None:
        self._open = False
        self._emit(
            ev.StepEnded(
                step=self.step,
                num_tokens=self._written_tokens,
                seconds=at - self._started,
                device=self._device,
                source=source,
            )
        )

    def _write(self, batch: Batch) -> None:
        size = self._size
        for request_id, start, end, blocks in batch:
            tokens, first = self._known[request_id], start // size
            for position in range(start, end):
                self._emit(
                    ev.SlotWritten(
                        request_id=self._names[request_id],
                        token_id=tokens[position],
                        text=self._piece(tokens[position]),
                        position=position,
                        block_id=blocks[position // size - first],
                        offset=position % size,
                        source=self._sources["execute_model"],
                    )
                )
            self._written_tokens += end - start

    def _found(
        self,
        step: int,
        free: list[int],
        ref_cnt: list[int],
        requests: list[tuple],
        named: list[tuple[int, bytes | None, bytes, int, list[int]]],
        flights: list[Batch],
    ) -> None:
        """A watch that begins in mid-run. What was known before is void."""
        source = self._sources["schedule"]
        self._held, self._open, self.step = None, False, step
        self._emit(
            ev.PoolFound(
                step=self.step, free=tuple(free), ref_cnt=tuple(ref_cnt), num_missed=self.missed, source=source
            )
        )
        self._names, self._known, self._running, self.missed = {}, {}, set(), 0
        for (
            request_id,
            tokens,
            num_prompt_tokens,
            max_tokens,
            status,
            num_computed,
            blocks,
            num_preemptions,
        ) in requests:
            self._names[request_id] = self._name(request_id)
            self._known[request_id] = list(tokens)
            if status == "running":
                self._running.add(request_id)
            self._emit(
                ev.RequestFound(
                    request_id=self._names[request_id],
                    token_ids=tuple(tokens),
                    texts=tuple(map(self._piece, tokens)),
                    num_prompt_tokens=num_prompt_tokens,
                    max_tokens=max_tokens,
                    status="preempted" if num_preemptions and status == "waiting" else status,
                    num_computed_tokens=num_computed,
                    block_ids=tuple(blocks),
                    num_preemptions=num_preemptions,
                    source=source,
                )
            )
        self._hashes = {}
        for block_id, parent, name, position, tokens in named:
            self._hashes[block_id] = name.hex()
            self._emit(
                ev.BlockFound(
                    block_id=block_id,
                    block_hash=name.hex(),
                    parent_hash=None if parent is None else parent.hex(),
                    position=position,
                    token_ids=tuple(tokens),
                    texts=tuple(map(self._piece, tokens)),
                    source=source,
                )
            )
        self._flights = deque(flights)
        if len(flights) > 1:
            self._held = []

    # ---------------------------------------------------------------------------------------------------- requests

    def _arrived(self, request_id: str, tokens: list[int], max_tokens: int) -> None:
        source = self._sources["add_request"]
        self._known[request_id] = list(tokens)
        name = self._names[request_id] = self._name(request_id)
        self._emit_now(  # not held back: nothing that is held speaks of it
            ev.RequestArrived(
                request_id=name,
                token_ids=tuple(tokens),
                texts=tuple(map(self._piece, tokens)),
                max_tokens=max_tokens,
                source=source,
            )
        )
        self._emit_now(ev.RequestQueued(request_id=name, source=source))

    def _name(self, request_id: str) -> str:
        """Without the random end that vLLM gives each id, where no other request goes by that name."""
        short = RANDOM_END.sub("", request_id)
        return request_id if short in self._names.values() else short

    def _preempted(self, request_id: str) -> None:
        self._running.discard(request_id)
        self._emit(ev.RequestPreempted(request_id=self._names[request_id], source=self._sources["_preempt_request"]))

    def _finished(self, request_id: str, reason: str) -> None:
        self._running.discard(request_id)
        self._known.pop(request_id)
        name, source = self._names.pop(request_id), self._sources["update_from_output"]
        self._emit(ev.RequestFinished(request_id=name, reason=reason, source=source))

    # ------------------------------------------------------------------------------------------------------ blocks

    def _looked_up(self, request_id: str, block_ids: list[int], num_tokens: int) -> None:
        self._emit(
            ev.PrefixLookedUp(
                request_id=self._names[request_id],
                block_ids=tuple(block_ids),
                num_tokens=num_tokens,
                source=self._sources["get_computed_blocks"],
            )
        )

    def _failed(self, request_id: str, num_tokens: int, num_free_blocks: int) -> None:
        self._emit(
            ev.AllocationFailed(
                request_id=self._names[request_id],
                num_tokens=num_tokens,
                num_free_blocks=num_free_blocks,
                source=self._sources["allocate_slots"],
            )
        )

    def _allocated(self, request_id: str, block_ids: list[int]) -> None:
        source = self._sources["get_new_blocks"]
        self._forget(block_ids, source)
        self._emit(
            ev.BlocksAllocated(
                request_id=self._names[request_id],
                block_ids=tuple(block_ids),
                ref_cnt=(1,) * len(block_ids),
                source=source,
            )
        )

    def _touched(self, request_id: str, found: list[tuple[int, bool, int]]) -> None:
        for block_id, revived, ref_cnt in found:
            self._emit(
                ev.BlockTouched(
                    request_id=self._names[request_id],
                    block_id=block_id,
                    revived=revived,
                    ref_cnt=ref_cnt,
                    source=self._sources["touch"],
                )
            )

    def _freed(self, request_id: str, blocks: list[tuple[int, int, bool]]) -> None:
        """``blocks``: number, owners that are left, has it a hash."""
        self._emit(
            ev.BlocksFreed(
                request_id=self._names[request_id],
                block_ids=tuple([block_id for block_id, _, _ in blocks]),
                to_head=tuple([block_id for block_id, owners, named in blocks if not owners and not named]),
                to_tail=tuple([block_id for block_id, owners, named in blocks if not owners and named]),
                ref_cnt=tuple([owners for _, owners, _ in blocks]),
                source=self._sources["free_blocks"],
            )
        )

    def _cached(self, block_ids: list[int], hashes: list[bytes], tokens: list[int]) -> None:
        source, size = self._sources["cache_full_blocks"], self._size
        names: list[str | None] = [bytes(name).hex() for name in hashes]
        if len(names) == len(block_ids):  # the first block of a prompt is among them: it has no parent
            names.insert(0, None)
        self._forget(block_ids, source)  # a name for a part of the block, which the one for the whole replaces
        for i, block_id in enumerate(block_ids):
            self._hashes[block_id] = names[i + 1]
            self._emit(
                ev.BlockCached(
                    block_id=block_id,
                    block_hash=names[i + 1],
                    parent_hash=names[i],
                    token_ids=tuple(tokens[i * size : (i + 1) * size]),
                    source=source,
                )
            )

    def _evicted(self, block_ids: list[int]) -> None:
        self._forget(block_ids, self._sources["evict_blocks"])

    def _forget(self, block_ids: list[int], source: str) -> None:
        for block_id in block_ids:
            if (name := self._hashes.pop(block_id, None)) is not None:
                self._emit(ev.BlockEvicted(block_id=block_id, block_hash=name, source=source))

    def _reset(self) -> None:
        self._hashes.clear()
        self._emit(ev.PrefixCacheReset(source=self._sources["reset_prefix_cache"]))


def texts(decode: Callable[[list[int]], Any]) -> Callable[[int], str]:
    """A token's own text, printable, from a tokenizer's ``decode``; each is asked for once."""
    known: dict[int, str] = {}

    def piece(token: int) -> str:
        if token not in known:
            text = decode([token])
            known[token] = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
        return known[token]

    return piece
