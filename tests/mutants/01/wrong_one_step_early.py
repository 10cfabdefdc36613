"""Nobody who runs writes in this step."""
# loses: 01.3

# part 01.3
starts = [40, None, None]
account_after = [23, 10, 7, 8, 0]
