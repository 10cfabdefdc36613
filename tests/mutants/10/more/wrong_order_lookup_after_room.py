"""Room first, then a look at what is there."""
# loses: 10.2
# blamed 10.2: a lookup goes through the hashes from the left, inside get_computed_blocks

# part 10.2
order = list("kbacljdighmef")
