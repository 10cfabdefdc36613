"""Counts every block that is still there, also behind a missing one."""
# loses: 08.1
# blamed 08.1: a block behind a missing one does not help

# part 08.1
def swap_bytes(num_tokens, block_size, bytes_per_token):
    num_blocks = -(-num_tokens // block_size)
    return 2 * num_blocks * block_size * bytes_per_token


def recompute_tokens(num_tokens, block_size, kept):
    return num_tokens - block_size * min(sum(kept), (num_tokens - 1) // block_size)
