"""The one that is refused takes its blocks, too."""
# loses: 04.2
# blamed 04.2: the blocks that are left are free

# part 04.2
def admitted(prompts, free_blocks, block_size, places):
    count = 0
    for prompt in prompts[:places]:
        needed = -(-prompt // block_size)
        free_blocks -= needed
        if free_blocks < 0:
            break
        count += 1
    return count, free_blocks
