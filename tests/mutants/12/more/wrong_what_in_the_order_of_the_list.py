"""In the order in which they are listed."""
# loses: 12.5
# blamed 12.5: each run has the fault that is in it

# part 12.5
faults = dict(zip(lineup, FAULTS))
