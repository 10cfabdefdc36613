"""Only the prompt has to fit: as if it were paged."""
# loses: 01.3

# part 01.3
starts = [20, 22, 40]
account_after = [34, 20, 6, 0, 8]
