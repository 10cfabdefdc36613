"""Fresh records in place of those in memory."""
# loses: 07.3
# blamed 07.3: longest_hit returns a list of blocks

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    hits = []
    for name in names[: (num_tokens - 1) // block_size]:
        block = find(name)
        if block is None:
            break
        hits.append(KVCacheBlock(block.block_id))
    return hits
