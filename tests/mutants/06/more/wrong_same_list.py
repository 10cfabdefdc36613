"""Parent and child write into one list."""
# loses: 06.2
# blamed 06.2: the child's table is a list of its own

# part 06.2
def fork(table):
    for block in table:
        block.ref_cnt += 1
    return table
