"""Numbers in the order of admission."""
# loses: 08.4
# blamed 08.4: a victim comes back with all its tokens as prompt

# part 08.4
victims = ["F", "E"]
served = ["A", "B", "C", "D"]
again = [5, 9]
carried = [1, 2]
