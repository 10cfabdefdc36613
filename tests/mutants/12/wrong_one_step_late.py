"""Counts steps from 0, and gives logical blocks."""
# loses: 12.4

# part 12.4
steps = {"run 1": 10, "run 2": 6, "run 3": 3, "run 4": 4, "run 5": 3}
steps |= {"run 6": 9, "run 7": 8, "run 8": 5, "run 9": 4, "run 10": 3}
blocks = {f"run {i}": 0 for i in range(1, 11)}
