"""Gives Z at once all the blocks that it will need."""
# loses: 03.3 03.4
# blamed 03.4: a block is asked for when the last one is full
# blamed 03.3: as many blocks as the prompt needs, and not one ahead

# part 03.3
table_after_prefill = [6, 4, 3, 7, 5]
tokens_in_block = [4, 4, 2, 0, 0]

# part 03.4
new_blocks = [None] * 7
