"""Computes only the prompt again."""
# loses: 08.4

# part 08.4
victims = ["F", "E"]
served = ["A", "B", "C", "D"]
again = [7, 3]
carried = [2, 1]
