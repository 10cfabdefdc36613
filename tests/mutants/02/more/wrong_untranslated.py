"""Predicts with the logical block, and takes the physical one for it on the way back."""
# loses: 02.3
# blamed 02.3: the key lies in its physical block

# part 02.3
key_begins = 4 * (17 * 24576 + 2 * 768 + 2 * 192 + 2 * 64)
value_of = ("B", 8 * 4 + 1)
