"""One victim is enough."""
# loses: 08.4
# blamed 08.4: as many make room as are needed, and no more

# part 08.4
victims = ["F"]
served = ["A", "B", "C", "D"]
again = [9]
carried = [2]
