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


def walk(state: MemoryState, token_ids: Sequence[int]) -> list[Lookup]:
    """Every block of the prompt and what its lookup finds in ``state``. Changes nothing.

    The tree is followed by tokens, so that it works for any server's hashes, whatever function made them. Where the
    hashes are ours, a prefix that was cached under another salt has the same tokens and still is no hit.
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
                if state.prefixes[h].token_ids == tokens and _unsalted(state, parent, h)
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


@dataclass(frozen=True)
class Difference:
    """Why a block missed: of all that could stand in its place, the block that begins most like it, and the first token
    (``index`` within the block) that differs. ``index``: None where none does: it belongs to another salt."""

    index: int | None
    token_id: int
    other_token_id: int
    block_hash: str


def difference(state: MemoryState, lookups: Sequence[Lookup]) -> Difference | None:
    """Of the block where this walk ended; None where it did not miss, and where nothing stands in that place."""
    missed = next((lookup for lookup in lookups if lookup.outcome == "miss"), None)
    if missed is None:
        return None
    parent = lookups[missed.logical - 1].block_hash if missed.logical else None
    best: Difference | None = None
    for block_hash in state.prefix_children().get(parent, []):
        theirs = state.prefixes[block_hash].token_ids
        pairs = enumerate(zip(missed.token_ids, theirs, strict=False))
        index = next((i for i, (mine, other) in pairs if mine != other), None)
        if best is None or index is None or (best.index is not None and index > best.index):
            best = Difference(index, missed.token_ids[index or 0], theirs[index or 0], block_hash)
    return best


@dataclass(frozen=True)
class Node:
    """A place in the tree: ``column`` is the logical block, ``row`` counts from the top."""

    block_hash: str
    column: int
    row: int
    orphan: bool  # the block before it is not known here (evicted, or cached before we listened)


def place_tree(state: MemoryState, max_rows: int, max_columns: int, keep: Sequence[str]) -> tuple[list[Node], int]:
    """Where each hashed block stands: behind its parent, a new row for each further child. And how many blocks found no
    room. Those in ``keep`` (in order, a path from the root) always have one, if need be in the last row."""
    children = state.prefix_children()
    starts = [parent for parent in children if parent is None or parent not in state.prefixes]
    waiting = [(h, 0, parent is not None, True) for parent in starts for h in children[parent]][::-1]
    nodes: list[Node] = []
    row = -1
    while waiting:
        block_hash, column, orphan, new_row = waiting.pop()
        row += new_row
        nodes.append(Node(block_hash, column, row, orphan))
        behind = children.get(block_hash, [])
        waiting += [(child, column + 1, False, i > 0) for i, child in reversed(list(enumerate(behind)))]
    total = len(nodes)
    rows_of_path = {node.row for node in nodes if node.block_hash in keep}
    shown = sorted(rows_of_path | set(range(min(max_rows, row + 1))), key=lambda r: (r not in rows_of_path, r))
    order = {r: i for i, r in enumerate(sorted(shown[:max_rows]))}
    nodes = [
        Node(n.block_hash, n.column, order[n.row], n.orphan) for n in nodes if n.row in order and n.column < max_columns
    ]
    return nodes, total - len(nodes)
