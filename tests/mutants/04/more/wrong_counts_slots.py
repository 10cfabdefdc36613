"""Counts slots, as if a block could be cut."""
# loses: 04.2
# blamed 04.2: nobody comes in for whom there are too few blocks, and nobody overtakes

# part 04.2
def admitted(prompts, free_blocks, block_size, places):
    slots, count = free_blocks * block_size, 0
    for prompt in prompts[:places]:
        if prompt > slots:
            break
        slots -= prompt
        count += 1
    return count, slots // block_size
