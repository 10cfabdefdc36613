"""Does not look at the places."""
# loses: 04.2
# blamed 04.2: no more come in than there are places

# part 04.2
def admitted(prompts, free_blocks, block_size, places):
    count = 0
    for prompt in prompts:
        needed = -(-prompt // block_size)
        if needed > free_blocks:
            break
        free_blocks, count = free_blocks - needed, count + 1
    return count, free_blocks
