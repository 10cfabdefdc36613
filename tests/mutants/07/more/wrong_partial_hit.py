"""Counts the block in which the two prompts part as found."""
# loses: 07.5
# blamed 07.5: a hit is a whole block that both have in common

# part 07.5
hits = [1, 2, 3]
new_blocks = [10, 11, 12, 13, 4]
forgotten = [4]
