"""Hits in the order of the queue."""
# loses: 07.5
# blamed 07.5: the hits are the blocks that hold the start of A, in Z's order

# part 07.5
hits = [2, 1]
new_blocks = [10, 11, 12, 13, 4, 3]
forgotten = [4, 3]
