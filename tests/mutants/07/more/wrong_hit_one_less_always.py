"""Leaves out one block whenever all are there."""
# loses: 07.3
# blamed 07.3: nothing that could be used is left out

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    hits = []
    for name in names:
        block = find(name)
        if block is None:
            return hits
        hits.append(block)
    return hits[:-1]
