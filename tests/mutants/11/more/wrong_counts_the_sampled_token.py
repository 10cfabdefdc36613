"""Counts the token that the step sampled as written."""
# loses: 11.3
# blamed 11.3: empty slots are those that the running requests hold and have not written

# part 11.3
running = [7, 6, 3]
empty = [-5, 54, 119]
