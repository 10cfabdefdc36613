"""Forgets the last block that is not full."""
# loses: 08.1
# blamed 08.1: a swap carries whole blocks, as many as the tokens lie in

# part 08.1
def swap_bytes(num_tokens, block_size, bytes_per_token):
    return 2 * (num_tokens // block_size) * block_size * bytes_per_token


def recompute_tokens(num_tokens, block_size, kept):
    found = 0
    for there in kept[: (num_tokens - 1) // block_size]:
        if not there:
            break
        found += block_size
    return num_tokens - found
