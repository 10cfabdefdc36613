"""The memory manager: blocks, the free queue, block tables, the prefix cache. Pure Python, no tensors.

Read ``block.py`` (a block and the queue), ``block_pool.py`` (who owns what), ``prefix.py`` (names of blocks) and
``manager.py`` (the only class that a scheduler calls), in this order: together they are this chapter. Here is one
request's life, as a session that you can type in; a test runs it.

A pool of 8 blocks of 4 tokens. Block 0 is the null block, so 7 can be handed out:

>>> from pagedlab.kv import BlockPool, KVCacheManager, extend_block_hashes
>>> manager = KVCacheManager(BlockPool(8), block_size=4, max_model_len=32)
>>> def free():
...     return [block.block_id for block in manager.block_pool.free_block_queue.get_all_free_blocks()]
>>> free()
[1, 2, 3, 4, 5, 6, 7]

The manager reads five things of a request. The engine's own class has more; this is all it takes:

>>> class Request:
...     def __init__(self, request_id, tokens):
...         self.request_id, self.tokens, self.status, self.num_computed_tokens = request_id, [], "waiting", 0
...         self.block_hashes = []
...         for token in tokens:
...             self.append(token)
...     def append(self, token):
...         self.tokens.append(token)
...         extend_block_hashes(self.block_hashes, self.tokens, block_size=4)
...     @property
...     def num_tokens(self):
...         return len(self.tokens)

**Admit.** A prompt of 10 tokens. Nothing of it is in memory, so 10 tokens have to be computed, which takes 3
blocks. The first two are full: they get their names now, and can be found by them.

>>> a = Request("A", range(10))
>>> manager.get_computed_blocks(a)
([], 0)
>>> manager.allocate_slots(a, 10)
[KVCacheBlock(#1, ref_cnt=1, cached=True), KVCacheBlock(#2, ref_cnt=1, cached=True),
 KVCacheBlock(#3, ref_cnt=1, cached=False)]
>>> a.num_computed_tokens = 10

A second request starts with the same 8 tokens. Its first two blocks are there already; it becomes their second
owner, and takes one block of its own for its last 2 tokens.

>>> b = Request("B", [0, 1, 2, 3, 4, 5, 6, 7, 90, 91])
>>> hits, num_hit = manager.get_computed_blocks(b)
>>> num_hit
8
>>> manager.allocate_slots(b, 10 - num_hit, new_computed_blocks=hits)
[KVCacheBlock(#4, ref_cnt=1, cached=False)]
>>> b.num_computed_tokens = 10
>>> manager.get_block_ids("A"), manager.get_block_ids("B"), free()
([1, 2, 3], [1, 2, 4], [5, 6, 7])

**Decode.** A token a step. Block 3 has room for two more, and gets its name in the step that fills it; the token after
that takes a new block.

>>> for token in (10, 11, 12):
...     a.append(token)
...     print(manager.allocate_slots(a, 1), manager.req_to_blocks["A"][2])
...     a.num_computed_tokens += 1
[] KVCacheBlock(#3, ref_cnt=1, cached=False)
[] KVCacheBlock(#3, ref_cnt=1, cached=True)
[KVCacheBlock(#5, ref_cnt=1, cached=False)] KVCacheBlock(#3, ref_cnt=1, cached=True)

A third request needs 3 blocks and finds 2. None means that it does not fit, and that nothing has changed:

>>> c = Request("C", range(50, 60))
>>> manager.allocate_slots(c, 10) is None, free()
(True, [6, 7])

**Preempt.** The scheduler may take B's blocks for it. Blocks 1 and 2 still have an owner. Block 4 has none, and no
name: nothing is lost by overwriting it, so it goes to the head of the queue.

>>> manager.free(b)
>>> b.num_computed_tokens = 0
>>> free()
[4, 6, 7]
>>> manager.allocate_slots(c, 10)
[KVCacheBlock(#4, ref_cnt=1, cached=True), KVCacheBlock(#6, ref_cnt=1, cached=True),
 KVCacheBlock(#7, ref_cnt=1, cached=False)]
>>> c.num_computed_tokens = 10

**Finish.** A gives back its blocks from the last to the first. Block 5 has no name and goes to the head. The others
go to the tail, the start of the prompt last, since it is the likeliest to be asked for again.

>>> manager.free(a)
>>> free()
[5, 3, 2, 1]

**Resume.** B comes back with all its tokens. Nobody owns blocks 1 and 2 any more, but nobody has overwritten them
either: B finds them in the middle of the queue, and computes only its last 2 tokens again.

>>> hits, num_hit = manager.get_computed_blocks(b)
>>> manager.allocate_slots(b, 10 - num_hit, new_computed_blocks=hits)
[KVCacheBlock(#5, ref_cnt=1, cached=False)]
>>> manager.get_block_ids("B"), free()
([1, 2, 5], [3])

**Evict.** A name is lost when its block is handed out again, not when it was given back. D takes block 3, where A's
tokens 8 to 11 lie:

>>> manager.block_pool.get_cached_block(a.block_hashes[2])
KVCacheBlock(#3, ref_cnt=0, cached=True)
>>> d = Request("D", [70, 71])
>>> manager.allocate_slots(d, 2)
[KVCacheBlock(#3, ref_cnt=1, cached=False)]
>>> manager.block_pool.get_cached_block(a.block_hashes[2]) is None
True

Source: vLLM v0.32.0, ``v1/core/``, whose decisions these classes make block for block (``pagedlab parity`` shows it).
"""

from pagedlab.kv.block import FreeKVCacheBlockQueue, KVCacheBlock
from pagedlab.kv.block_pool import BlockPool
from pagedlab.kv.block_table import BlockTable
from pagedlab.kv.manager import KVCacheManager
from pagedlab.kv.prefix import extend_block_hashes, hash_block_tokens

__all__ = [
    "BlockPool",
    "BlockTable",
    "FreeKVCacheBlockQueue",
    "KVCacheBlock",
    "KVCacheManager",
    "extend_block_hashes",
    "hash_block_tokens",
]
