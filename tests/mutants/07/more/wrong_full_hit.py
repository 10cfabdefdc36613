"""Takes all over where everything is in memory: nothing is left to be computed."""
# loses: 07.3
# blamed 07.3: the last token is never found

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    hits = []
    for name in names:
        block = find(name)
        if block is None:
            break
        hits.append(block)
    return hits
