"""All tokens in common blocks: too few empty slots."""
# loses: 04.4
# blamed 04.4: blocks are held by one request or free, 19 in all

# part 04.4
now_running = 4
blocks_left = 5
empty_slots = 3
