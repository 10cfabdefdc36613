"""The third one, which would need a shorter region, overtakes; the sums follow."""
# loses: 01.3
# blamed 01.3: first come, first served

# part 01.3
starts = [40, None, 20]
account_after = [25, 8, 7, 0, 8]
