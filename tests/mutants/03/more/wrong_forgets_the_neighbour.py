"""Right steps, but B's blocks are handed to Z."""
# loses: 03.4
# blamed 03.4: the queue is shared: who asks first gets its head

# part 03.4
new_blocks = [None, None, 7, None, None, None, 5]
