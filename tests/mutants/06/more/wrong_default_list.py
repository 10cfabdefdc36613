"""A child that grows from call to call."""
# loses: 06.2
# blamed 06.2: the child's table names the same physical blocks, in the same order

# part 06.2
def fork(table, child=[]):
    for block in table:
        block.ref_cnt += 1
    child += table
    return child
