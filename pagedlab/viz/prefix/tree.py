"""The tree of hashed blocks: where each stands, and at which token a prompt leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pagedlab.trace import MemoryState
from pagedlab.viz.walk import Lookup


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
