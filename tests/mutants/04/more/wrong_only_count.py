"""Returns how many, and nothing else."""
# loses: 04.2
# blamed 04.2: admitted returns two whole numbers

# part 04.2
def admitted(prompts, free_blocks, block_size, places):
    count = 0
    for prompt in prompts[:places]:
        needed = -(-prompt // block_size)
        if needed > free_blocks:
            break
        free_blocks -= needed
        count += 1
    return count
