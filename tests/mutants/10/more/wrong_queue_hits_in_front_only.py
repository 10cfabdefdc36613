"""A hit leaves only where it stands in front."""
# loses: 10.3
# blamed 10.3: hits leave the queue from wherever they stand

# part 10.3
def after_free(queue, table, ref_cnt, hashed):
    freed = [block for block in reversed(table) if ref_cnt[block] == 1]
    first = [block for block in freed if block not in hashed]
    last = [block for block in freed if block in hashed]
    return first + queue + last


def after_hit(queue, hits, num_new):
    left = list(queue)
    while left and left[0] in hits:
        left.pop(0)
    return left[num_new:]
