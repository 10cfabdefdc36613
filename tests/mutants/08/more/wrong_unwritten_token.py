"""Forgets the token that was sampled and not written."""
# loses: 08.4
# blamed 08.4: a victim comes back with all its tokens as prompt

# part 08.4
victims = ["F", "E"]
served = ["A", "B", "C", "D"]
again = [8, 4]
carried = [2, 1]
