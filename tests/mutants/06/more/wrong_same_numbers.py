"""Fresh records with the same numbers and owners."""
# loses: 06.2
# blamed 06.2: the records are the parent's own

# part 06.2
def fork(table):
    for block in table:
        block.ref_cnt += 1
    child = [KVCacheBlock(b.block_id) for b in table]
    for mine, its in zip(child, table):
        mine.ref_cnt = its.ref_cnt
    return child
