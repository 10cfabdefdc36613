"""Shares the full blocks only, as V1 does: the last one is left out."""
# loses: 06.2
# blamed 06.2: the child's table names the same physical blocks, in the same order

# part 06.2
def fork(table):
    child = table[:-1]
    for block in child:
        block.ref_cnt += 1
    return child
