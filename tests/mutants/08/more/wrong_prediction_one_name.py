"""A name in place of a list."""
# loses: 08.4
# blamed 08.4: victims and served are lists of names, again and carried lists of numbers

# part 08.4
victims = "FE"
served = ["A", "B", "C", "D"]
again = [9, 5]
carried = [2, 1]
