"""Goes on with the list of the call before."""
# loses: 07.3
# blamed 07.3: longest_hit returns a list of blocks

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    hits = longest_hit.hits = getattr(longest_hit, "hits", [])
    for name in names[: (num_tokens - 1) // block_size]:
        block = find(name)
        if block is None:
            break
        hits.append(block)
    return hits
