"""Looks at eight hits."""
# loses: 10.3
# blamed 10.3: hits leave the queue from wherever they stand

# part 10.3
def after_free(queue, table, ref_cnt, hashed):
    freed = [block for block in reversed(table) if ref_cnt[block] == 1]
    first = [block for block in freed if block not in hashed]
    last = [block for block in freed if block in hashed]
    return first + queue + last


def after_hit(queue, hits, num_new):
    left = [block for block in queue if block not in hits[:8]]
    return left[num_new:]
