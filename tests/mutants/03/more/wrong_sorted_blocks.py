"""Takes the smallest free block first, not the head of the queue."""
# loses: 03.3 03.4
# blamed 03.4: a block comes from the free queue
# blamed 03.3: the blocks are those that the free queue gives, in its order

# part 03.3
table_after_prefill = [3, 4, 5]
tokens_in_block = [4, 4, 2]

# part 03.4
new_blocks = [None, None, 6, None, None, None, 9]
