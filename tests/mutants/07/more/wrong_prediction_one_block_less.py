"""A block less than the tokens need."""
# loses: 07.5
# blamed 07.5: the rest of the prompt gets new blocks, as many as it needs

# part 07.5
hits = [1, 2]
new_blocks = [10, 11, 12, 13, 4]
forgotten = [4]
