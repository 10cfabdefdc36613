"""Takes the names out of the list."""
# loses: 07.3
# blamed 07.3: the list of names stays as it is

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    hits = []
    for _ in range((num_tokens - 1) // block_size):
        block = find(names.pop(0))
        if block is None:
            break
        hits.append(block)
    return hits
