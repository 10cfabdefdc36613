"""Counts the tokens of before the step for those who run."""
# loses: 04.4
# blamed 04.4: empty are the slots in the tables that hold no token after the step

# part 04.4
now_running = 4
blocks_left = 3
empty_slots = 9
