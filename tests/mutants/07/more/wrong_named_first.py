"""Hands out blocks with a name first, and spares those without."""
# loses: 07.5
# blamed 07.5: new blocks come from the head of what is left of the queue

# part 07.5
hits = [1, 2]
new_blocks = [4, 3, 8, 7, 9, 6]
forgotten = [4, 3, 8, 7, 9, 6]
