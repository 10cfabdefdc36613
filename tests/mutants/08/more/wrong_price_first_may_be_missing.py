"""A miss at the very start is forgiven."""
# loses: 08.1
# blamed 08.1: a block behind a missing one does not help

# part 08.1
def swap_bytes(num_tokens, block_size, bytes_per_token):
    num_blocks = -(-num_tokens // block_size)
    return 2 * num_blocks * block_size * bytes_per_token


def recompute_tokens(num_tokens, block_size, kept):
    found = 0
    for there in kept[: (num_tokens - 1) // block_size]:
        if not there and found:
            break
        found += block_size if there else 0
    return num_tokens - found
