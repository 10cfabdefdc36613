"""Finds 32 blocks at most."""
# loses: 07.3
# blamed 07.3: nothing that could be used is left out

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    hits = []
    names = names[:32]
    for name in names[: (num_tokens - 1) // block_size]:
        block = find(name)
        if block is None:
            break
        hits.append(block)
    return hits
