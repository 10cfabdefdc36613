"""Calls the free slots free, though the next one fits into none of them."""
# loses: 01.3
# blamed 01.3: the free slots are external or free, by who waits after the step

# part 01.3
starts = [40, None, None]
account_after = [25, 8, 7, 0, 8]
