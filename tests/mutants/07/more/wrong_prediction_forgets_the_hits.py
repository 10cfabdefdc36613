"""What was found is forgotten, too."""
# loses: 07.5
# blamed 07.5: those that had a name and are handed out lose it

# part 07.5
hits = [1, 2]
new_blocks = [10, 11, 12, 13, 4, 3]
forgotten = [1, 2, 4, 3]
