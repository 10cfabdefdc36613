"""The sampled token is in memory."""
# loses: 11.3
# blamed 11.3: empty slots are those that the running requests hold and have not written

# part 11.3
running = [7, 6, 3]
empty = [1, 54, 119]
