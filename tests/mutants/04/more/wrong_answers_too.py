"""Keeps a block for the first token of the answer."""
# loses: 04.2
# blamed 04.2: whoever has room comes in

# part 04.2
def admitted(prompts, free_blocks, block_size, places):
    count = 0
    for prompt in prompts[:places]:
        needed = -(-(prompt + 1) // block_size)
        if needed > free_blocks:
            break
        free_blocks -= needed
        count += 1
    return count, free_blocks
