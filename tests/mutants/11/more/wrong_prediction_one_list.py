"""One number for all."""
# loses: 11.3
# blamed 11.3: both are lists with one number for each block size

# part 11.3
running = 7
empty = [2, 60, 122]
