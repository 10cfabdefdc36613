"""Takes prompts out of the caller's list."""
# loses: 04.2
# blamed 04.2: the list of prompts stays as it was

# part 04.2
def admitted(prompts, free_blocks, block_size, places):
    count = 0
    while prompts and count < places:
        prompt = prompts.pop(0)
        needed = -(-prompt // block_size)
        if needed > free_blocks:
            break
        free_blocks -= needed
        count += 1
    return count, free_blocks
