"""Words for numbers."""
# loses: 12.4

# part 12.4
steps = {name: "3" for name in lineup}
blocks = {name: 1 for name in lineup}
