"""Whoever asks for a block goes."""
# loses: 08.4
# blamed 08.4: who was admitted last goes first

# part 08.4
victims = ["B", "D"]
served = ["A", "C", "E", "F"]
again = [9, 9]
carried = [2, 2]
