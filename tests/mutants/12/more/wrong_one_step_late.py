"""Counts steps from 0, and gives logical blocks."""
# loses: 12.4
# blamed 12.4: the step is the first one in which a rule is broken

# part 12.4
steps = {f"run {i}": step for i, step in enumerate([2, 8, 10, 7, 6, 4, 3, 4, 3, 4], start=1)}
blocks = {f"run {i}": 0 for i in range(1, 11)}
