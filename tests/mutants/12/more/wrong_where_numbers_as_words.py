"""Words for numbers."""
# loses: 12.4
# blamed 12.4: steps and blocks have a number for each of run 1 to run 10

# part 12.4
steps = {name: "3" for name in lineup}
blocks = {name: 1 for name in lineup}
