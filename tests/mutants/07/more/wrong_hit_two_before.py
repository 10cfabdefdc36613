"""Leaves two tokens to compute."""
# loses: 07.3
# blamed 07.3: nothing that could be used is left out

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    hits = []
    for name in names[: max(0, num_tokens - 2) // block_size]:
        block = find(name)
        if block is None:
            break
        hits.append(block)
    return hits
