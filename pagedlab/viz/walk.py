"""A prompt's walk through the tree of hashed blocks: one lookup a block, from the left, until the first miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagedlab.kv.prefix import NO_SALT, hash_block_tokens
from pagedlab.trace import MemoryState


@dataclass(frozen=True)
class Lookup:
    """One block of the prompt. ``outcome``: "hit"; "miss" (the walk ends here); "last" (it is there, but has to be
    computed again: the last token's logits are needed); "partial" (not full, so it has no hash); "after" (behind the
    end of the walk, never looked up). ``block_id``: None where the run does not tell which block it is."""

    logical: int
    token_ids: tuple[int, ...]
    outcome: str
    block_hash: str | None = None
    block_id: int | None = None
    revives: bool = False  # nobody holds it: it would come out of the middle of the free queue


def block_ids(state: MemoryState) -> dict[str, int]:
    """Hash to block, for runs that say which block got which hash. Of two copies, the one that was cached first."""
    found: dict[str, int] = {}
    for block_id, block_hash in state.cached.items():
        found.setdefault(block_hash, block_id)
    return found


def walk(state: MemoryState, token_ids: Sequence[int], *, ours: bool = True) -> list[Lookup]:
    """Every block of the prompt and what its lookup finds in ``state``. Changes nothing.

    The tree is followed by tokens, so that it works for any server's hashes, whatever function made them. Where the
    hashes are ``ours``, a prefix that was cached under another salt has the same tokens and still is no hit.
    """
    size = state.block_size
    children, ids = state.prefix_children(), block_ids(state)
    result: list[Lookup] = []
    parent: str | None = None
    ended = False
    for start in range(0, len(token_ids), size):
        tokens = tuple(token_ids[start : start + size])
        logical = start // size
        if ended or len(tokens) < size:
            result.append(Lookup(logical, tokens, "partial" if len(tokens) < size else "after"))
            continue
        found = next(
            (
                h
                for h in children.get(parent, [])
                if state.prefixes[h].token_ids == tokens and (not ours or _unsalted(state, parent, h))
            ),
            None,
        )
        if found is None:
            result.append(Lookup(logical, tokens, "miss"))
            ended = True
            continue
        block_id = ids.get(found)
        last = start + size == len(token_ids)
        revives = block_id is not None and state.ref_cnt[block_id] == 0
        result.append(Lookup(logical, tokens, "last" if last else "hit", found, block_id, revives))
        parent = found
    return result


def _unsalted(state: MemoryState, parent: str | None, block_hash: str) -> bool:
    """Could a prompt without salt have this block? Only the first block tells, and only if the hash is ours."""
    if parent is not None or block_hash not in state.cached.values():
        return True
    return block_hash == hash_block_tokens(NO_SALT, state.prefixes[block_hash].token_ids).hex()


def num_hit(lookups: Sequence[Lookup]) -> int:
    """How many tokens need not be computed."""
    return sum(len(lookup.token_ids) for lookup in lookups if lookup.outcome == "hit")
