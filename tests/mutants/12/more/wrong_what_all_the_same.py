"""One name for all."""
# loses: 12.5
# blamed 12.5: each name is used once

# part 12.5
faults = dict.fromkeys(lineup, "full hit")
