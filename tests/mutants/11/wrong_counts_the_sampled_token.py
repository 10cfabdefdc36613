"""Counts the token that the step sampled as written."""
# loses: 11.3

# part 11.3
running = [7, 6, 3]
empty = [-5, 54, 119]
