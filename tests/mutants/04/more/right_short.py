"""Math's ceil, accumulate, floats where they are allowed."""
# loses: nothing

# added
from itertools import accumulate
from math import ceil


# part 04.1
def waste(lengths, block_size):
    return (
        sum(ceil(n / block_size) for n in lengths),
        sum(-n % block_size for n in lengths),
        block_size * len(lengths) - len(lengths),
    )

# part 04.2
def admitted(prompts, free_blocks, block_size, places):
    taken = [0, *accumulate((p + block_size - 1) // block_size for p in prompts[:places])]
    fits = [t for t in taken if t <= free_blocks]
    return len(fits) - 1, free_blocks - fits[-1]

# part 04.3
def batch_and_speed(memory, weights, per_token, block_size, context, bandwidth):
    pool = (memory - weights) // per_token // block_size
    batch = int(pool // (context // block_size + 1))
    return batch, batch / (weights / bandwidth + batch * (context + 1) * per_token / bandwidth)

# part 04.4
now_running, blocks_left, empty_slots = 4, 3, 7
