"""Forgets that each block has a price of its own."""
# loses: 08.2
# blamed 08.2: each block has its own price, twice

# part 08.2
def swap_pays(num_tokens, sizes, machine):
    recompute = machine["seconds_per_step"] + num_tokens / machine["tokens_per_second"]
    found = []
    for size in sizes:
        num_blocks = -(-num_tokens // size)
        num_bytes = num_blocks * size * machine["bytes_per_token"]
        swap = 2 * num_bytes / machine["bytes_per_second"]
        if swap < recompute:
            found.append(size)
    return found
