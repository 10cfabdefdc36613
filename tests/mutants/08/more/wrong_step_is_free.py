"""Forgets what a step takes however short it is."""
# loses: 08.2
# blamed 08.2: no size is left out

# part 08.2
def swap_pays(num_tokens, sizes, machine):
    recompute = num_tokens / machine["tokens_per_second"]
    found = []
    for size in sizes:
        num_blocks = -(-num_tokens // size)
        num_bytes = num_blocks * size * machine["bytes_per_token"]
        swap = 2 * (num_blocks * machine["seconds_per_block"] + num_bytes / machine["bytes_per_second"])
        if swap < recompute:
            found.append(size)
    return found
