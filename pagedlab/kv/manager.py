"""Does this request fit, and where? The one class that the scheduler talks to.

Follow one request through it (the package's own docstring, ``pagedlab/kv/__init__.py``, does so with numbers):

* **admit**: :meth:`KVCacheManager.get_computed_blocks` finds the longest prefix that is already in memory;
  :meth:`KVCacheManager.allocate_slots` adopts those blocks and takes new ones for the rest, or returns None and
  changes nothing.
* **decode**: ``allocate_slots(request, 1)`` in every step; it takes a block only where the last one is full, and
  names a block by its hash in the step that fills it.
* **preempt**: :meth:`KVCacheManager.free`; full blocks keep their hashes in the free queue.
* **resume**: as admit, with all tokens sampled so far; whatever was not overwritten in the meantime is found again.
* **finish**: :meth:`KVCacheManager.free`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pagedlab.kv.block import KVCacheBlock, block_ids
from pagedlab.kv.block_pool import BlockPool


class RequestLike(Protocol):
    """What the manager reads of a request (``pagedlab.engine.Request`` has it). It never changes one."""

    request_id: str
    status: str  # "finished" requests get nothing
    num_tokens: int  # prompt and sampled tokens, all that it holds
    num_computed_tokens: int  # whose K and V are in memory
    block_hashes: list[bytes]  # of its full blocks; empty where prefix caching is off


class KVCacheManager:
    """Gives requests their blocks. V1 semantics: blocks are shared only when full and are then read-only, nothing
    is copied.

    Source: vLLM ``v1/core/kv_cache_manager.py``, class ``KVCacheManager`` (there spread over a coordinator and one
    manager for each group of layers; here one group, with full attention)."""

    def __init__(self, block_pool: BlockPool, block_size: int, max_model_len: int, enable_caching: bool = True) -> None:
        if block_size < 1 or max_model_len < 1:
            raise ValueError(f"block_size is {block_size} and max_model_len {max_model_len}; both must be at least 1")
        if enable_caching and not getattr(block_pool, "enable_caching", True):
            raise ValueError("the manager was made with enable_caching=True, but its pool with enable_caching=False")
        self.block_pool = block_pool
        self.block_size = block_size
        self.max_model_len = max_model_len
        self.enable_caching = enable_caching
        self.req_to_blocks: dict[str, list[KVCacheBlock]] = {}  # the block table of each request
        self.num_cached_block: dict[str, int] = {}  # how many of its blocks have got their hash

    def get_computed_blocks(self, request: RequestLike) -> tuple[list[KVCacheBlock], int]:
        """The blocks in memory that hold the start of ``request``, and how many tokens that is. Changes nothing.

        The last token never hits: its logits are needed to sample the next one, so it has to be computed. A prompt
        of whole blocks therefore computes its last block again, all of it, since a hit is always a whole block."""
        if not self.enable_caching:
            return [], 0
        hits = []
        for block_hash in request.block_hashes[: (request.num_tokens - 1) // self.block_size]:
            block = self.block_pool.get_cached_block(block_hash)
            if block is None:
                break
            hits.append(block)
        return hits, len(hits) * self.block_size

    def allocate_slots(
        self,
        request: RequestLike,
        num_new_tokens: int,
        new_computed_blocks: Sequence[KVCacheBlock] = (),
        full_sequence_must_fit: bool = False,
    ) -> list[KVCacheBlock] | None:
        """Make room for ``num_new_tokens`` tokens behind the computed ones.

        ``new_computed_blocks``: what :meth:`get_computed_blocks` found for a request that holds no blocks yet; they
        are adopted first. ``full_sequence_must_fit``: refuse unless *all* tokens the request holds would fit, not
        only this chunk of them.

        Returns the new blocks, in logical order (often none: the last block has room), or None where the free
        blocks do not suffice; then nothing has changed. Raises ValueError, and changes nothing, for a finished or
        unknown request and for counts that make no sense."""
        blocks = self.req_to_blocks.get(request.request_id)
        num_computed = request.num_computed_tokens + len(new_computed_blocks) * self.block_size
        num_tokens = num_computed + num_new_tokens
        if num_new_tokens < 1 or num_tokens > self.max_model_len:
            raise ValueError(
                f"cannot add {num_new_tokens} tokens to the {num_computed} computed ones of request "
                f"{request.request_id!r}: at least 1, and at most max_model_len={self.max_model_len} together"
            )
        # Blocks that are full once these tokens are there; tokens that the request does not hold yet fill none.
        num_full_blocks = min(num_tokens, request.num_tokens) // self.block_size if self.enable_caching else 0
        if num_full_blocks > len(request.block_hashes):
            raise ValueError(
                f"request {request.request_id!r} fills {num_full_blocks} blocks but names only "
                f"{len(request.block_hashes)} by hash; it must be made with block_size={self.block_size} and caching "
                "on, as this manager was"
            )
        if blocks is None:
            self._check_newcomer(request)
        elif new_computed_blocks:
            raise ValueError(f"request {request.request_id!r} holds blocks already; hits are adopted at admission only")

        num_held = len(blocks) + len(new_computed_blocks) if blocks else len(new_computed_blocks)
        num_new_blocks = -(-num_tokens // self.block_size) - num_held
        num_needed = num_new_blocks
        if full_sequence_must_fit:
            num_full = -(-min(request.num_tokens, self.max_model_len) // self.block_size)
            num_needed = max(num_new_blocks, num_full - num_held)
        for block in new_computed_blocks:
            if block.ref_cnt == 0:  # a hit that nobody owns leaves the free queue too, so it counts as taken
                num_needed += 1
        if num_needed > self.block_pool.get_num_free_blocks():
            return None

        if blocks is None:
            # Hits are touched before new blocks are taken: else one of them could be the next to be handed out.
            if new_computed_blocks:
                self.block_pool.touch(new_computed_blocks)
            blocks = self.req_to_blocks[request.request_id] = list(new_computed_blocks)
            self.num_cached_block[request.request_id] = len(blocks)
        new_blocks = []
        if num_new_blocks > 0:
            new_blocks = self.block_pool.get_new_blocks(num_new_blocks)
            blocks.extend(new_blocks)

        # A block gets its hash now, before the model has run: whoever is admitted later in this step can hit it,
        # since all K and V of a layer are written before any of that layer's are read.
        if num_full_blocks > self.num_cached_block[request.request_id]:
            self.cache_blocks(request, num_full_blocks * self.block_size)
        return new_blocks

    def cache_blocks(self, request: RequestLike, num_tokens: int) -> None:
        """Give those blocks their hash which the first ``num_tokens`` tokens of a running request fill: for tokens that
        were not known yet when their slots were allocated."""
        num_full_blocks = num_tokens // self.block_size if self.enable_caching else 0
        num_cached = self.num_cached_block[request.request_id]
        if num_full_blocks > num_cached:
            blocks = self.req_to_blocks[request.request_id]
            self.block_pool.cache_full_blocks(blocks, request.block_hashes, num_cached, num_full_blocks)
            self.num_cached_block[request.request_id] = num_full_blocks

    def _check_newcomer(self, request: RequestLike) -> None:
        """A request without blocks may only be one that starts or resumes, with nothing computed."""
        if request.status == "finished":
            raise ValueError(f"request {request.request_id!r} is finished; it gets no blocks any more")
        if request.num_computed_tokens > 0:
            raise ValueError(
                f"request {request.request_id!r} is unknown here, yet {request.num_computed_tokens} of its tokens are "
                "said to be computed; a request that starts or resumes has 0"
            )

    def free(self, request: RequestLike) -> None:
        """Give back all blocks of ``request``, the last one first: the start of a prompt is the likeliest to be hit
        again, so it is to be evicted last. Raises ValueError for a request that holds none (unknown, or freed
        before)."""
        blocks = self.req_to_blocks.get(request.request_id)
        if blocks is None:
            raise ValueError(f"request {request.request_id!r} holds no blocks: it is unknown here, or was freed before")
        self.block_pool.free_blocks(blocks[::-1])
        del self.req_to_blocks[request.request_id], self.num_cached_block[request.request_id]

    def forget_unwritten(self, requests: Sequence[RequestLike]) -> None:
        """The step in which ``requests`` were to be computed came to nothing: whatever they hold behind their computed
        tokens was named in advance (see :meth:`allocate_slots`) and is empty, so nobody may find it.

        Where one of them had hit a block that another one was to fill in that step, its ``num_computed_tokens`` goes
        back to the start of that block (the only thing that this class ever changes of a request).
        """
        unwritten: set[KVCacheBlock] = set()
        for request in reversed(requests):  # who was admitted later may have hit what one before was to write
            blocks = self.req_to_blocks.get(request.request_id, [])
            written = request.num_computed_tokens // self.block_size
            self.block_pool.evict_blocks(blocks[written:][::-1])  # a name goes after those behind it
            self.num_cached_block[request.request_id] = min(self.num_cached_block[request.request_id], written)
            unwritten.update(blocks[written:])
        for request in requests:
            for logical, block in enumerate(self.req_to_blocks.get(request.request_id, [])):
                if block in unwritten:
                    request.num_computed_tokens = min(request.num_computed_tokens, logical * self.block_size)
                    break

    def get_block_ids(self, request_id: str) -> list[int]:
        """The request's block table: physical block ids in logical order (empty where it holds none)."""
        return block_ids(self.req_to_blocks.get(request_id, ()))

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. False, and nothing changed, while any request holds blocks."""
        return self.block_pool.reset_prefix_cache()
