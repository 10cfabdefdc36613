"""Counts the way out and forgets the way back."""
# loses: 08.1
# blamed 08.1: a swap carries every block twice

# part 08.1
def swap_bytes(num_tokens, block_size, bytes_per_token):
    num_blocks = -(-num_tokens // block_size)
    return num_blocks * block_size * bytes_per_token


def recompute_tokens(num_tokens, block_size, kept):
    found = 0
    for there in kept[: (num_tokens - 1) // block_size]:
        if not there:
            break
        found += block_size
    return num_tokens - found
