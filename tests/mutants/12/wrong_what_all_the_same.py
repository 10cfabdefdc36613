"""One name for all."""
# loses: 12.5

# part 12.5
faults = dict.fromkeys(lineup, "full hit")
