"""Goes on behind a miss."""
# loses: 07.3
# blamed 07.3: the blocks are the first ones of the prompt, without a gap

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    hits = []
    for name in names[: (num_tokens - 1) // block_size]:
        block = find(name)
        if block is None:
            continue
        hits.append(block)
    return hits
