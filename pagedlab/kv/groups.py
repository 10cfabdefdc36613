"""Layers of a model that need different blocks: one pool, and for each group of layers a block table of its own.

A layer with full attention looks back at every token; one with a sliding window at the last few only. So their blocks
live for different times, and one table for all would keep everything for the sake of a few layers. Layers of one kind
form a *group*. Every group takes its blocks from the same pool, so whatever one group gives back the next may take.

What a group with a window does differently: blocks whose tokens are all out of the window become the null block while
the request runs; a prefix hit needs only the blocks that the window covers, and is looked for from the right; and of
what it computes it names only blocks at which a hit can end (see ``retention_interval``).

Where all layers have full attention, ``manager.py`` does the same with one table, shorter and quicker.

Source: vLLM ``v1/core/kv_cache_coordinator.py`` and ``v1/core/single_type_kv_cache_manager.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagedlab.kv.block import KVCacheBlock, block_ids
from pagedlab.kv.block_pool import BlockPool
from pagedlab.kv.manager import RequestLike

GROUP_BYTES = 4  # of its number, behind the hash of a prefix


def most_blocks(
    windows: Sequence[int | None], num_tokens: int, block_size: int, max_in_flight_tokens: int
) -> int:
    """How many blocks a request of ``num_tokens`` tokens holds at most at once, in all groups together, where no more
    than ``max_in_flight_tokens`` of it are scheduled and not taken in yet."""
    in_all = -(-num_tokens // block_size)
    of_windows = [_most_in_window(w, block_size, max_in_flight_tokens, num_tokens) for w in windows if w is not None]
    return in_all * (len(windows) - len(of_windows)) + sum(min(in_all, most) for most in of_windows)


def _most_in_window(window: int, block_size: int, max_in_flight_tokens: int, num_tokens: int) -> int:
    tokens = min(window - 1 + max_in_flight_tokens, num_tokens)
    return -(-tokens // block_size) + 1  # a window may begin in the middle of a block


class FullAttentionGroup:
    """The tables of a group whose layers look back at everything.

    Blocks are known by the hash of their prefix *and the group*: K and V of other layers are other numbers, so no block
    is ever shared between groups.
    """

    window: int | None = None

    def __init__(self, number: int, block_pool: BlockPool, block_size: int) -> None:
        self.block_pool = block_pool
        self.block_size = block_size
        self.req_to_blocks: dict[str, list[KVCacheBlock]] = {}
        self.num_cached_block: dict[str, int] = {}  # how many of its blocks were looked at for a hash
        self._tag = number.to_bytes(GROUP_BYTES, "big")

    def key(self, block_hash: bytes) -> bytes:
        """What a block of this group is found by."""
        return block_hash + self._tag

    def num_skipped_blocks(self, num_computed_tokens: int) -> int:
        """How many blocks at the start hold nothing that a later token looks at."""
        return 0

    def max_blocks_of_a_request(self, max_in_flight_tokens: int | None, max_model_len: int) -> int | None:
        """More than these it never holds at once, where chunks are no longer than ``max_in_flight_tokens``; None: there
        is no such number."""
        return None

    def find_longest_hit(self, found: Sequence[list[KVCacheBlock] | None]) -> tuple[int, int]:
        """``found``: for each full block of a prompt what is in memory, None where it is not. Returns (first, end) of
        the blocks that are hit; those before ``first`` are not needed."""
        for end, blocks in enumerate(found):
            if blocks is None:
                return 0, end
        return 0, len(found)

    def is_named(self, logical_block: int, boundaries: Sequence[int], interval: int | None) -> bool:
        """Whether this block gets its hash when it is full. ``boundaries``: tokens at which a hit is likely to end."""
        return True

    # ------------------------------------------------------------------------------------------------- of one request

    def num_needed(self, request_id: str, num_tokens: int, hits: Sequence[KVCacheBlock], most: int | None) -> int:
        """Blocks that leave the free queue if the request gets room for ``num_tokens`` tokens in all, and adopts
        ``hits``. ``most``: the limit of :meth:`max_blocks_of_a_request`."""
        required = -(-num_tokens // self.block_size)
        if most is not None:
            required = min(required, most)
        held = len(self.req_to_blocks.get(request_id, hits))
        return max(required - held, 0) + sum(block.ref_cnt == 0 and not block.is_null for block in hits)

    def remove_skipped_blocks(self, request_id: str, num_computed_tokens: int) -> None:
        """Give back what has fallen out of the window, the last one first; the null block takes its place."""
        blocks = self.req_to_blocks[request_id]
        skipped = []
        for logical in reversed(range(min(self.num_skipped_blocks(num_computed_tokens), len(blocks)))):
            if blocks[logical].is_null:
                break  # and so are those before it
            skipped.append(blocks[logical])
            blocks[logical] = self.block_pool.null_block
        if skipped:
            self.block_pool.free_blocks(skipped)

    def adopt(self, request_id: str, hits: Sequence[KVCacheBlock]) -> None:
        """Start the request's table with what was found in memory."""
        self.req_to_blocks[request_id] = list(hits)
        self.block_pool.touch([block for block in hits if not block.is_null])
        self.num_cached_block[request_id] = len(hits)

    def take_new_blocks(self, request_id: str, num_tokens: int) -> list[KVCacheBlock]:
        blocks = self.req_to_blocks[request_id]
        new = self.block_pool.get_new_blocks(max(-(-num_tokens // self.block_size) - len(blocks), 0))
        blocks.extend(new)
        return new

    def cache_blocks(
        self,
        request_id: str,
        block_hashes: Sequence[bytes],
        num_full_blocks: int,
        boundaries: Sequence[int],
        interval: int | None,
    ) -> None:
        """Give full blocks their hashes. One that is passed over is not looked at again."""
        blocks, first = self.req_to_blocks[request_id], self.num_cached_block[request_id]
        if first >= num_full_blocks:
            return
        keys = [self.key(block_hash) for block_hash in block_hashes[:num_full_blocks]]
        for logical in range(first, num_full_blocks):
            if not blocks[logical].is_null and self.is_named(logical, boundaries, interval):
                self.block_pool.cache_full_blocks(blocks, keys, logical, logical + 1)
        self.num_cached_block[request_id] = num_full_blocks

    def forget_unwritten(self, request_id: str, num_written: int) -> list[KVCacheBlock]:
        """Take the names of the blocks behind the first ``num_written`` ones. Returns these blocks."""
        blocks = [block for block in self.req_to_blocks.get(request_id, [])[num_written:] if not block.is_null]
        self.block_pool.evict_blocks(blocks[::-1])  # a name goes after those behind it
        if request_id in self.num_cached_block:
            self.num_cached_block[request_id] = min(self.num_cached_block[request_id], num_written)
        return blocks

    def free(self, request_id: str) -> None:
        blocks = self.req_to_blocks.pop(request_id)
        del self.num_cached_block[request_id]
        self.block_pool.free_blocks([block for block in reversed(blocks) if not block.is_null])


class SlidingWindowGroup(FullAttentionGroup):
    """The tables of a group whose layers look at ``window`` tokens, their own included."""

    def __init__(self, number: int, block_pool: BlockPool, block_size: int, window: int) -> None:
        super().__init__(number, block_pool, block_size)
        self.window: int = window
        self._num_covering = -(-(window - 1) // block_size)  # blocks that a token right behind them looks at

    def num_skipped_blocks(self, num_computed_tokens: int) -> int:
        return max(0, num_computed_tokens - self.window + 1) // self.block_size

    def max_blocks_of_a_request(self, max_in_flight_tokens: int | None, max_model_len: int) -> int | None:
        if max_in_flight_tokens is None:
            return None
        return _most_in_window(self.window, self.block_size, max_in_flight_tokens, max_model_len)

    def find_longest_hit(self, found: Sequence[list[KVCacheBlock] | None]) -> tuple[int, int]:
        """From the right: the first run of blocks that covers a window; failing that, what there is at the start."""
        length = 0
        for logical in reversed(range(len(found))):
            length = length + 1 if found[logical] is not None else 0
            if length and length >= self._num_covering:
                return logical, logical + length
        return 0, length

    def is_named(self, logical_block: int, boundaries: Sequence[int], interval: int | None) -> bool:
        """With ``interval`` None all are; else those that a window covers which ends at a boundary or, if it is not 0,
        at a multiple of ``interval`` tokens."""
        if interval is None:
            return True
        ends = [tokens // self.block_size for tokens in boundaries]
        if interval:
            every = interval // self.block_size
            ends.append((logical_block // every + 1) * every)
        return any(end - self._num_covering <= logical_block < end for end in ends)


class GroupedRequest(RequestLike):
    """What this manager reads of a request besides."""

    num_prompt_tokens: int  # of its first prompt, also after a preemption
    num_in_flight_tokens: int  # scheduled ones whose step has not been taken in


@dataclass(frozen=True)
class GroupedHits:
    """What a request finds in memory: for each group its blocks, the null block where it needs none.

    ``shared_prefix_boundary``: how many tokens the group that found most has in memory, 0 where no group has more than
    all of them have. Somebody computed the same start before, so its end is worth a name this time.
    """

    blocks: tuple[list[KVCacheBlock], ...]
    num_tokens: int = 0
    shared_prefix_boundary: int = 0


class GroupedKVCacheManager:
    """Gives requests their blocks, in every group. What it is asked, and when, is as in
    :class:`pagedlab.kv.KVCacheManager`; where that has a list of blocks, this has one for each group.

    windows: of each group, in tokens, the token itself included; None is full attention. retention_interval: at which
    multiples of tokens a group with a window names its blocks (0: only where a prompt ends, or a shared start; None:
    everywhere); a multiple of the block size. max_in_flight_tokens: no step has more of one request; None where that is
    not known. num_lookahead_tokens: slots behind a step's tokens for drafts that are not written yet.

    Source: vLLM ``v1/core/kv_cache_manager.py``, and ``kv_cache_coordinator.py`` for how groups agree.
    """

    def __init__(
        self,
        block_pool: BlockPool,
        block_size: int,
        max_model_len: int,
        enable_caching: bool = True,
        *,
        windows: Sequence[int | None],
        retention_interval: int | None = 0,
        max_in_flight_tokens: int | None = None,
        num_lookahead_tokens: int = 0,
    ) -> None:
        if block_size < 1 or max_model_len < 1 or num_lookahead_tokens < 0:
            raise ValueError(
                f"block_size is {block_size}, max_model_len {max_model_len} and num_lookahead_tokens "
                f"{num_lookahead_tokens}; the first two must be at least 1, the third at least 0"
            )
        if not windows or any(window is not None and window < 1 for window in windows):
            raise ValueError(f"windows are {list(windows)}; give one for each group, None or at least 1")
        if retention_interval is not None and (retention_interval < 0 or retention_interval % block_size):
            raise ValueError(f"retention_interval is {retention_interval}; give None or a multiple of {block_size}")
        if max_in_flight_tokens is not None and max_in_flight_tokens < 1:
            raise ValueError(f"max_in_flight_tokens is {max_in_flight_tokens}; it must be None or at least 1")
        self.block_pool = block_pool
        self.block_size = block_size
        self.max_model_len = max_model_len
        self.enable_caching = enable_caching
        self.retention_interval = retention_interval
        self.max_in_flight_tokens = max_in_flight_tokens
        self.num_lookahead_tokens = num_lookahead_tokens
        self.groups = [
            FullAttentionGroup(number, block_pool, block_size)
            if window is None
            else SlidingWindowGroup(number, block_pool, block_size, window)
            for number, window in enumerate(windows)
        ]
        self.shared_prefix_boundaries: dict[str, int] = {}  # of each request that holds blocks
        # Groups of one kind are looked up together. Full attention is asked first: it finds its limit most quickly.
        kinds = sorted(dict.fromkeys(windows), key=lambda window: window is not None)
        self._kinds = [[group for group in self.groups if group.window == window] for window in kinds]

    # --------------------------------------------------------------------------------------------------------- hits

    def get_computed_blocks(self, request: GroupedRequest) -> tuple[GroupedHits, int]:
        """The longest start of ``request`` that every group has in memory, and how many tokens that is. Changes
        nothing. As in the other manager the last token never hits.

        Each kind of group looks within what the kind before it found, round and round, until a round finds no less."""
        if not self.enable_caching:
            return GroupedHits(tuple([] for _ in self.groups)), 0
        length = (request.num_tokens - 1) // self.block_size
        longest, runs = 0, {}
        while True:
            before = length
            for kind in self._kinds:
                if kind[0].window is None and runs:
                    length = min(length, runs[None][1])  # whoever has a prefix has every shorter one: cut, do not look
                    continue
                first, length = runs[kind[0].window] = kind[0].find_longest_hit(self._found(request, kind, length))
                longest = max(longest, length)
            if length >= before:
                break
        blocks = tuple(self._hit_of(request, group, *runs[group.window], length) for group in self.groups)
        boundary = longest * self.block_size if longest > length else 0
        return GroupedHits(blocks, length * self.block_size, boundary), length * self.block_size

    def _found(
        self, request: GroupedRequest, kind: Sequence[FullAttentionGroup], length: int
    ) -> list[list[KVCacheBlock] | None]:
        """For each of the first ``length`` blocks: those of all groups of a kind, None where one has it not."""
        found: list[list[KVCacheBlock] | None] = []
        for block_hash in request.block_hashes[:length]:
            blocks = [self.block_pool.get_cached_block(group.key(block_hash)) for group in kind]
            found.append(None if None in blocks else blocks)
        return found

    def _hit_of(
        self, request: GroupedRequest, group: FullAttentionGroup, first: int, end: int, length: int
    ) -> list[KVCacheBlock]:
        hashes = request.block_hashes[first : min(end, length)]
        found = [self.block_pool.get_cached_block(group.key(block_hash)) for block_hash in hashes]
        return [self.block_pool.null_block] * first + found

    # ---------------------------------------------------------------------------------------------------------- slots

    def allocate_slots(
        self,
        request: GroupedRequest,
        num_new_tokens: int,
        new_computed_blocks: GroupedHits | None = None,
        full_sequence_must_fit: bool = False,
    ) -> tuple[list[KVCacheBlock], ...] | None:
        """Make room for ``num_new_tokens`` tokens behind the computed ones, in every group. Whatever a window has
        passed is given back first, also where the rest does not fit.

        Returns the new blocks of each group, or None where the free blocks do not suffice. Raises ValueError, and
        changes nothing, for a finished or unknown request and for counts that make no sense."""
        name = request.request_id
        is_new = name not in self.shared_prefix_boundaries
        hits = new_computed_blocks or GroupedHits(tuple([] for _ in self.groups))
        num_computed = request.num_computed_tokens + hits.num_tokens
        num_tokens = num_computed + num_new_tokens
        self._check(request, num_new_tokens, num_tokens, is_new, hits)

        if full_sequence_must_fit:
            in_all = min(request.num_tokens, self.max_model_len)
            if not self._fits(name, in_all, hits, is_gate=True):
                return None
        if not is_new:
            num_settled = num_computed - request.num_in_flight_tokens  # what is under way still looks at its window
            for group in self.groups:
                group.remove_skipped_blocks(name, num_settled)
        num_slots = min(num_tokens + self.num_lookahead_tokens, self.max_model_len)
        if not self._fits(name, num_slots, hits, is_gate=False):
            return None

        if is_new:
            self.shared_prefix_boundaries[name] = hits.shared_prefix_boundary
            for group, blocks in zip(self.groups, hits.blocks, strict=True):  # all hits before any new block is taken
                group.adopt(name, blocks)
        new_blocks = tuple(group.take_new_blocks(name, num_slots) for group in self.groups)
        self.cache_blocks(request, min(num_tokens, request.num_tokens))
        return new_blocks

    def _fits(self, name: str, num_tokens: int, hits: GroupedHits, *, is_gate: bool) -> bool:
        """Is there room for ``num_tokens`` tokens in every group? ``is_gate``: for all of a request, over its life, in
        which a group with a window never holds more than so many blocks at once."""
        num_needed = 0
        for group, blocks in zip(self.groups, hits.blocks, strict=True):
            most = group.max_blocks_of_a_request(self.max_in_flight_tokens, self.max_model_len) if is_gate else None
            num_needed += group.num_needed(name, num_tokens, blocks, most)
        return num_needed <= self.block_pool.get_num_free_blocks()

    def _check(
        self, request: GroupedRequest, num_new_tokens: int, num_tokens: int, is_new: bool, hits: GroupedHits
    ) -> None:
        if num_new_tokens < 1 or num_tokens > self.max_model_len:
            raise ValueError(
                f"cannot add {num_new_tokens} tokens to the {num_tokens - num_new_tokens} computed ones of request "
                f"{request.request_id!r}: at least 1, and at most max_model_len={self.max_model_len} together"
            )
        if is_new and (request.status == "finished" or request.num_computed_tokens > 0):
            raise ValueError(
                f"request {request.request_id!r} holds no blocks here, but is {request.status} with "
                f"{request.num_computed_tokens} computed tokens; one that starts or resumes has 0, and is not finished"
            )
        if not is_new and hits.num_tokens:
            raise ValueError(f"request {request.request_id!r} holds blocks already; hits are adopted at admission only")

    def cache_blocks(self, request: GroupedRequest, num_tokens: int) -> None:
        """Give those blocks their hash which the first ``num_tokens`` tokens fill, in every group."""
        if not self.enable_caching:
            return
        boundaries = [request.num_prompt_tokens - 1, self.shared_prefix_boundaries[request.request_id]]
        for group in self.groups:
            group.cache_blocks(
                request.request_id,
                request.block_hashes,
                num_tokens // self.block_size,
                boundaries,
                self.retention_interval,
            )

    def free(self, request: GroupedRequest) -> None:
        """Give back all blocks of ``request``, group by group. Raises ValueError for one that holds none."""
        if request.request_id not in self.shared_prefix_boundaries:
            raise ValueError(f"request {request.request_id!r} holds no blocks: it is unknown here, or was freed before")
        del self.shared_prefix_boundaries[request.request_id]
        for group in self.groups:
            group.free(request.request_id)

    def forget_unwritten(self, requests: Sequence[GroupedRequest]) -> list[GroupedRequest]:
        """The step in which ``requests`` were to be computed came to nothing: blocks behind their computed tokens were
        named in advance and are empty, so nobody may find them.

        Returns those that had hit one of these. What they hold of it is empty, and before it are perhaps null blocks,
        so that they cannot go back a little: each has to :meth:`begin_anew`."""
        unwritten: set[KVCacheBlock] = set()
        for request in reversed(requests):  # who was admitted later may have hit what one before was to write
            written = request.num_computed_tokens // self.block_size
            for group in self.groups:
                unwritten.update(group.forget_unwritten(request.request_id, written))
        return [request for request in requests if unwritten.intersection(self._computed_blocks(request))]

    def _computed_blocks(self, request: GroupedRequest) -> list[KVCacheBlock]:
        full, name = request.num_computed_tokens // self.block_size, request.request_id
        return [block for group in self.groups for block in group.req_to_blocks.get(name, [])[:full]]

    def begin_anew(self, request: GroupedRequest) -> None:
        """Give back all blocks of a request that keeps running, with nothing computed."""
        for group in self.groups:
            group.free(request.request_id)
            group.adopt(request.request_id, [])
        request.num_computed_tokens = 0

    def get_block_ids(self, request_id: str) -> tuple[list[int], ...]:
        """The request's block table in each group; 0 is the null block."""
        return tuple(block_ids(group.req_to_blocks.get(request_id, ())) for group in self.groups)

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. False, and nothing changed, while any request holds blocks."""
        return self.block_pool.reset_prefix_cache()
