"""Takes the flags out of the list."""
# loses: 08.1
# blamed 08.1: the list kept stays as it is

# part 08.1
def swap_bytes(num_tokens, block_size, bytes_per_token):
    num_blocks = -(-num_tokens // block_size)
    return 2 * num_blocks * block_size * bytes_per_token


def recompute_tokens(num_tokens, block_size, kept):
    found = 0
    while kept and found + block_size < num_tokens and kept.pop(0):
        found += block_size
    return num_tokens - found
