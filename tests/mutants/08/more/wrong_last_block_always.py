"""Never finds the last full block, even where a partial one follows."""
# loses: 08.1
# blamed 08.1: what can be found is not computed again, and everything else is

# part 08.1
def swap_bytes(num_tokens, block_size, bytes_per_token):
    num_blocks = -(-num_tokens // block_size)
    return 2 * num_blocks * block_size * bytes_per_token


def recompute_tokens(num_tokens, block_size, kept):
    found = 0
    for there in kept[:-1]:
        if not there:
            break
        found += block_size
    return num_tokens - found
