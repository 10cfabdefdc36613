"""All tokens in common blocks: too few empty slots."""
# loses: 04.4

# part 04.4
now_running = 4
blocks_left = 5
empty_slots = 3
