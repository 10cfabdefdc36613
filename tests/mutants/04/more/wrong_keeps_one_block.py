"""Keeps the last free block back."""
# loses: 04.2
# blamed 04.2: whoever has room comes in

# part 04.2
def admitted(prompts, free_blocks, block_size, places):
    count = 0
    for prompt in prompts[:places]:
        needed = -(-prompt // block_size)
        if needed >= free_blocks:
            break
        free_blocks, count = free_blocks - needed, count + 1
    return count, free_blocks
