"""Names the victims in the order of admission."""
# loses: 08.4
# blamed 08.4: who was admitted last goes first

# part 08.4
victims = ["E", "F"]
served = ["A", "B", "C", "D"]
again = [5, 9]
carried = [1, 2]
