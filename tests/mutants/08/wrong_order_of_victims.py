"""Names the victims in the order of admission."""
# loses: 08.4

# part 08.4
victims = ["E", "F"]
served = ["A", "B", "C", "D"]
again = [5, 9]
carried = [1, 2]
