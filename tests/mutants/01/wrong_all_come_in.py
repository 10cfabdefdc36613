"""Only the prompt has to fit: as if it were paged."""
# loses: 01.3
# blamed 01.3: those come in who find a hole, until the first one that does not

# part 01.3
starts = [20, 22, 40]
account_after = [34, 20, 6, 0, 8]
