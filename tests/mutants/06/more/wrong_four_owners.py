"""Counts to four owners."""
# loses: 06.2
# blamed 06.2: each block has one owner more

# part 06.2
def fork(table):
    for block in table:
        block.ref_cnt = min(block.ref_cnt + 1, 4)
    return list(table)
