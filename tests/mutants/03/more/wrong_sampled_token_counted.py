"""Counts the token that the prefill sampled as if it were in memory; everything comes one step early."""
# loses: 03.3 03.4
# blamed 03.4: no block is asked for while the last one has room
# blamed 03.3: the counts add up to the tokens whose K and V are in memory

# part 03.3
table_after_prefill = [6, 4, 3]
tokens_in_block = [4, 4, 3]

# part 03.4
new_blocks = [None, 5, None, None, None, 10, None]
