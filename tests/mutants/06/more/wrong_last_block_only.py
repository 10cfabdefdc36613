"""Only the block that is not full gets an owner."""
# loses: 06.2
# blamed 06.2: each block has one owner more

# part 06.2
def fork(table):
    for block in table[-1:]:
        block.ref_cnt += 1
    return list(table)
