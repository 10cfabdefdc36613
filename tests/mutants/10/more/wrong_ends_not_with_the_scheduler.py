"""Newcomers before those that run, and a string for a list."""
# loses: 10.2
# blamed 10.2: order is a list of all letters, each once

# part 10.2
order = "a, b, c"
