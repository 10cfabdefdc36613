"""The memory manager: blocks, the free queue, block tables, the prefix cache. Pure Python, no tensors."""

from pagedlab.kv.block import FreeKVCacheBlockQueue, KVCacheBlock
from pagedlab.kv.block_pool import BlockPool
from pagedlab.kv.block_table import BlockTable
from pagedlab.kv.manager import KVCacheManager
from pagedlab.kv.prefix import extend_block_hashes, hash_block_tokens

__all__ = [
    "BlockPool", "BlockTable", "FreeKVCacheBlockQueue", "KVCacheBlock", "KVCacheManager", "extend_block_hashes",
    "hash_block_tokens",
]
