"""Computes only the prompt again."""
# loses: 08.4
# blamed 08.4: a victim comes back with all its tokens as prompt

# part 08.4
victims = ["F", "E"]
served = ["A", "B", "C", "D"]
again = [7, 3]
carried = [2, 1]
