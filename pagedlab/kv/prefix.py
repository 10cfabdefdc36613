"""When do two blocks hold the same K and V? When their tokens *and everything before them* are the same.

K and V at a position depend on every token up to it, so a block is named by a chained hash: the hash of the block before it
together with its own tokens. Equal hashes mean equal prefixes, and one dictionary lookup per block finds the longest
prefix already in memory.

Source: vLLM ``v1/core/kv_cache_utils.py``, ``hash_block_tokens``; SHA-256 as there, so that a prefix of somebody else's
cannot be forged.
"""

from __future__ import annotations

from array import array
from hashlib import sha256


def first_parent(salt: str = "") -> bytes:
    """The parent of a request's first block. Requests with different salts share nothing (nor can they time each other)."""
    return sha256(b"pagedlab:" + salt.encode()).digest()


NO_SALT = first_parent()


def hash_block_tokens(parent_hash: bytes, token_ids: list[int]) -> bytes:
    """The 32-byte hash of one full block: ``token_ids`` [block_size] after the prefix named by ``parent_hash``."""
    return sha256(parent_hash + array("q", token_ids).tobytes()).digest()


def extend_block_hashes(
    block_hashes: list[bytes], token_ids: list[int], block_size: int, parent_hash: bytes = NO_SALT
) -> None:
    """Append the hashes of those full blocks of ``token_ids`` that ``block_hashes`` does not name yet, in place."""
    if block_hashes:
        parent_hash = block_hashes[-1]
    for start in range(len(block_hashes) * block_size, len(token_ids) - block_size + 1, block_size):
        parent_hash = sha256(parent_hash + array("q", token_ids[start:start + block_size]).tobytes()).digest()
        block_hashes.append(parent_hash)
