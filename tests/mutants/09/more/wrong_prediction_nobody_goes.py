"""Nobody is thrown out."""
# loses: 09.3
# blamed 09.3: somebody is thrown out when a request needs its next block and none is free

# part 09.3
running = [3, 2, 5, 5]
preemptions = [0, 0, 0, 0]
