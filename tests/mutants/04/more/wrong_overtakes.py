"""Passes over who has no room and lets in those behind."""
# loses: 04.2
# blamed 04.2: nobody comes in for whom there are too few blocks, and nobody overtakes

# part 04.2
def admitted(prompts, free_blocks, block_size, places):
    count = 0
    for prompt in prompts:
        needed = -(-prompt // block_size)
        if count < places and needed <= free_blocks:
            free_blocks -= needed
            count += 1
    return count, free_blocks
