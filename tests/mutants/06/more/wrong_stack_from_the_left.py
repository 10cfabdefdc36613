"""Takes the free blocks from the wrong end."""
# loses: 06.4
# blamed 06.4: copies go to the blocks that the stack gives, in its order

# part 06.4
copies = [(18, 0), (18, 1)]
tables = [[15, 17, 0], [15, 17, 1], [15, 17, 18]]
