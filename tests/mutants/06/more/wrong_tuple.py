"""A tuple."""
# loses: 06.2
# blamed 06.2: the records are the parent's own

# part 06.2
def fork(table):
    for block in table:
        block.ref_cnt += 1
    return tuple(table)
