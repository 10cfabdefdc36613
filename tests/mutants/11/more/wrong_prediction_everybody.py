"""Everybody runs."""
# loses: 11.3
# blamed 11.3: requests come in by their order, as long as there are blocks for their prompt

# part 11.3
running = [8, 8, 8]
empty = [2, 60, 122]
