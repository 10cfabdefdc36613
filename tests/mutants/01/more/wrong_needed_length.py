"""Looks for a hole as long as what will be needed, not as what is reserved."""
# loses: 01.3
# blamed 01.3: internal is what they hold beyond what they will need

# part 01.3
starts = [40, None, None]
account_after = [25, 8, 5, 10, 0]
