"""Looks from the right and takes what it finds first."""
# loses: 07.3
# blamed 07.3: the blocks are the first ones of the prompt, without a gap

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    most = (num_tokens - 1) // block_size
    for last in range(most, 0, -1):
        if find(names[last - 1]) is not None:
            return [block for block in map(find, names[:last]) if block is not None]
    return []
