"""In the order in which they are listed."""
# loses: 12.5

# part 12.5
faults = dict(zip(lineup, FAULTS))
