"""Newcomers before those that run, and a string for a list."""
# loses: 10.2

# part 10.2
order = "a, b, c"
