"""Copies the records too, so that each table counts owners of its own."""
# loses: 06.2
# blamed 06.2: the records are the parent's own

# part 06.2
def fork(table):
    import copy

    child = copy.deepcopy(table)
    for block in table + child:
        block.ref_cnt += 1
    return child
