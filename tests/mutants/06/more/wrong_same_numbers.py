"""Fresh records with the same numbers and owners."""
# loses: 06.2
# blamed 06.2: no call of your code ends in an error

# part 06.2
def fork(table):
    for block in table:
        block.ref_cnt += 1
    child = [KVCacheBlock(b.block_id) for b in table]
    for mine, its in zip(child, table):
        mine.ref_cnt = its.ref_cnt
    return child
