"""Parent and child write into one list."""
# loses: 06.2

# part 06.2
def fork(table):
    for block in table:
        block.ref_cnt += 1
    return table
