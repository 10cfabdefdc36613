"""Which pairs of blocks can be copied?  Asked on the host, before anything moves; needs no Triton."""

from typing import Any

from pagedlab.errors import PagedlabError, is_whole


def check_pairs(what: str, pairs: Any, num_sources: int, num_destinations: int) -> tuple[list[int], list[int]]:
    """Pairs of blocks (from, to) as two lists. Raises PagedlabError for what are no such pairs, an id outside its pool,
    or two copies into one block."""
    try:
        pairs = [(source, destination) for source, destination in pairs]
    except (TypeError, ValueError):
        raise PagedlabError(f"{what}: {pairs!r:.80} is no list of (source, destination) block ids.") from None
    for pair in pairs:
        for block, num_blocks in zip(pair, (num_sources, num_destinations), strict=True):
            if not is_whole(block) or not 0 <= block < num_blocks:
                raise PagedlabError(
                    f"{what}: block {block!r:.60} is not in the pool; ids go from 0 to {num_blocks - 1}."
                )
    sources, destinations = [int(source) for source, _ in pairs], [int(destination) for _, destination in pairs]
    if len(set(destinations)) != len(destinations):
        raise PagedlabError(f"{what}: two copies go into the same block; give each its own destination.")
    return sources, destinations
