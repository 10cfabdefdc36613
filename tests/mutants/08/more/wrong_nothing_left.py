"""Where all blocks are there, computes nothing."""
# loses: 08.1
# blamed 08.1: something is always computed

# part 08.1
def swap_bytes(num_tokens, block_size, bytes_per_token):
    num_blocks = -(-num_tokens // block_size)
    return 2 * num_blocks * block_size * bytes_per_token


def recompute_tokens(num_tokens, block_size, kept):
    found = 0
    for there in kept:
        if not there:
            break
        found += block_size
    return num_tokens - found
