"""Victims get their token, too."""
# loses: 08.4
# blamed 08.4: all who are left get their token computed

# part 08.4
victims = ["F", "E"]
served = ["A", "B", "C", "D", "E"]
again = [9, 5]
carried = [2, 1]
