"""What must be true of a pool and its tables at any moment, and the whole state as plain data."""

from hashlib import sha256

from pagedlab.kv import BlockPool, KVCacheManager
from pagedlab.kv.prefix import NO_SALT


def state_of(manager: KVCacheManager) -> dict:
    """Everything the manager and its pool know, as plain data that can be compared."""
    return {
        "tables": {name: [b.block_id for b in table] for name, table in manager.req_to_blocks.items()},
        "num_cached": dict(manager.num_cached_block),
    } | state_of_pool(manager.block_pool)


def state_of_pool(pool: BlockPool) -> dict:
    return {
        "ref_cnt": [block.ref_cnt for block in pool.blocks],
        "free": [block.block_id for block in pool.free_block_queue.get_all_free_blocks()],
        "num_free": pool.get_num_free_blocks(),
        "hashes": [block.block_hash for block in pool.blocks],
        "index": {h: [b.block_id for b in blocks] for h, blocks in pool.cached_block_hash_to_blocks.items()},
    }


def check_pool(pool: BlockPool, tables: list[list]) -> None:
    """Raises AssertionError unless every block is in exactly one of free and used, and everything agrees with
    ``tables``."""
    queue = pool.free_block_queue
    free = queue.get_all_free_blocks()
    assert len(free) == len(set(free)) == queue.num_free_blocks == pool.get_num_free_blocks()
    before = queue._head
    for block in [*free, queue._tail]:  # the links agree both ways
        assert block.prev_free_block is before and before.next_free_block is block
        before = block

    held = [block for table in tables for block in table]
    assert all(len(table) == len(set(table)) for table in tables), "a table holds a block twice"
    for block in pool.blocks:
        assert block.ref_cnt == held.count(block)
        if block.is_null:
            assert block.block_id == 0 and block not in free and block.block_hash is None
        else:
            assert (block in free) == (block.ref_cnt == 0)
        if block not in free:
            assert block.prev_free_block is None and block.next_free_block is None
    assert pool.get_num_free_blocks() + len(set(held)) + 1 == pool.num_gpu_blocks

    indexed = [(block.block_id, h) for h, blocks in pool.cached_block_hash_to_blocks.items() for block in blocks]
    assert sorted(indexed) == [(b.block_id, b.block_hash) for b in pool.blocks if b.block_hash is not None]
    assert all(pool.cached_block_hash_to_blocks.values()), "an empty entry was left in the index"


def hash_of_prefix(tokens: list[int], block_size: int) -> bytes:
    """The name of the block that ends ``tokens``, computed apart from the code under test."""
    name = NO_SALT
    for start in range(0, len(tokens), block_size):
        name = sha256(name + b"".join(t.to_bytes(8, "little") for t in tokens[start : start + block_size])).digest()
    return name
