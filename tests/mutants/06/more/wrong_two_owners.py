"""Sets the count to 2, although the parent may have other children."""
# loses: 06.2
# blamed 06.2: each block has one owner more

# part 06.2
def fork(table):
    for block in table:
        block.ref_cnt = 2
    return table[:]
