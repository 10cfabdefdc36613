"""Loops that hand out blocks one at a time; a batch grown until it is too large; the prediction worked out."""
# loses: nothing

# added
def blocks_of(tokens, size):
    blocks = 0
    while blocks * size < tokens:
        blocks += 1
    return blocks

# part 04.1
def waste(lengths, block_size):
    print("asked for", lengths)
    filled = [blocks_of(n, block_size) for n in lengths]
    empty = [b * block_size - n for b, n in zip(filled, lengths)]
    return [sum(filled), sum(empty), sum(block_size - 1 for _ in lengths)]

# part 04.2
def admitted(prompts, free_blocks, block_size, places):
    left, came = free_blocks, 0
    while came < min(places, len(prompts)) and left >= blocks_of(prompts[came], block_size):
        left -= blocks_of(prompts[came], block_size)
        came += 1
    return [came, left]

# part 04.3
def batch_and_speed(memory, weights, per_token, block_size, context, bandwidth):
    each = blocks_of(context + 1, block_size) * block_size * per_token
    room = (memory - weights) // (block_size * per_token) * block_size * per_token
    batch = 0
    while (batch + 1) * each <= room:
        batch += 1
    bytes_read = weights + batch * context * per_token
    bytes_written = batch * per_token
    return batch, batch * bandwidth / (bytes_read + bytes_written)

# part 04.4
moment = puzzle(SEED)
tokens = {name: n + 1 for name, n in moment.running.items()}
blocks_left = moment.num_free - sum(blocks_of(n + 1, 4) - blocks_of(n, 4) for n in moment.running.values())
came, blocks_left = admitted(list(moment.waiting.values()), blocks_left, 4, 5 - len(tokens))
tokens.update(list(moment.waiting.items())[:came])
now_running = len(tokens)
empty_slots = waste(list(tokens.values()), 4)[1]
