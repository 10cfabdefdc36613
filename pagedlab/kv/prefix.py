"""When do two blocks hold the same K and V? When their tokens *and everything before them* are the same.

K and V at a position depend on every token up to it, so it is not enough that two blocks hold equal tokens. A block
is therefore named by a chained hash: the hash of the block before it together with its own tokens. Equal hashes
mean equal prefixes, and the longest prefix already in memory is found with one dictionary lookup per block, from
the left, until the first miss.

Only full blocks are named. A block that is still being filled would change its name with every token, and could not be
shared anyway: its next free slot can belong to one request only.

The function is SHA-256, as in vLLM, and not something quicker: with a weak hash somebody could make a prompt whose
hash is that of somebody else's, and be answered from that memory.

Source: vLLM ``v1/core/kv_cache_utils.py``, ``hash_block_tokens`` (the bytes that go into the hash are our own).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import sha256

BYTES_PER_TOKEN = 8  # array type "q"


def first_parent(salt: str = "") -> bytes:
    """The parent of a request's first block. Requests with different salts share nothing (nor can they time each
    other)."""
    return sha256(b"pagedlab:" + salt.encode()).digest()


NO_SALT = first_parent()


def hash_block_tokens(parent_hash: bytes, token_ids: Sequence[int]) -> bytes:
    """The 32-byte hash of one full block: ``token_ids`` [block_size] behind the prefix that ``parent_hash`` names."""
    return sha256(parent_hash + array("q", token_ids).tobytes()).digest()


def extend_block_hashes(
    block_hashes: list[bytes], token_ids: list[int], block_size: int, parent_hash: bytes = NO_SALT
) -> None:
    """Append, in place, the hashes of those full blocks of ``token_ids`` that ``block_hashes`` does not name yet.

    A request calls this once for its prompt and again whenever decoding has filled a block: nothing is hashed twice.
    """
    if block_hashes:
        parent_hash = block_hashes[-1]
    data = array("q", token_ids[len(block_hashes) * block_size :]).tobytes()  # all at once: quicker than block by block
    size = block_size * BYTES_PER_TOKEN
    for start in range(0, len(data) - size + 1, size):
        parent_hash = sha256(parent_hash + data[start : start + size]).digest()
        block_hashes.append(parent_hash)
