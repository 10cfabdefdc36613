"""Carries the full blocks only, and thinks that F's two are one."""
# loses: 08.4
# blamed 08.4: a swap carries all blocks of a victim

# part 08.4
victims = ["F", "E"]
served = ["A", "B", "C", "D"]
again = [9, 5]
carried = [1, 1]
