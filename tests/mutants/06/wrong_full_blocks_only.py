"""Shares the full blocks only, as V1 does: the last one is left out."""
# loses: 06.2

# part 06.2
def fork(table):
    child = table[:-1]
    for block in child:
        block.ref_cnt += 1
    return child
