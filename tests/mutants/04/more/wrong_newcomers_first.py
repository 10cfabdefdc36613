"""Those who wait are served before A gets its block."""
# loses: 04.4
# blamed 04.4: who has room comes in, first come, first served

# part 04.4
now_running = 5
blocks_left = 0
empty_slots = 4
