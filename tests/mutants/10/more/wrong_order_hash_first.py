"""A block is named before it is taken."""
# loses: 10.2
# blamed 10.2: blocks get their hash last, once they belong to the request

# part 10.2
order = list("kbaighcldjmef")
