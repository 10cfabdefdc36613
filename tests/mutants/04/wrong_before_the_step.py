"""Counts the tokens of before the step for those who run."""
# loses: 04.4

# part 04.4
now_running = 4
blocks_left = 3
empty_slots = 9
