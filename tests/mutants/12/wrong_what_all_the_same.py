"""One name for all."""
# loses: 12.5
# blames: 12.5 each name is used once

# part 12.5
faults = dict.fromkeys(lineup, "full hit")
