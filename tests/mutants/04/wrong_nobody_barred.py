"""F, which would fit, comes in past E."""
# loses: 04.4

# part 04.4
now_running = 5
blocks_left = 2
empty_slots = 8
