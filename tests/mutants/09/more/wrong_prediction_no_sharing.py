"""A prefix is paid for by everybody."""
# loses: 09.3
# blamed 09.3: requests come in by their order, as long as the door is open and there are blocks for their prompt

# part 09.3
running = [3, 2, 5, 3]
preemptions = [1, 0, 2, 2]
