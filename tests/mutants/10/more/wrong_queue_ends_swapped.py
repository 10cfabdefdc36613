"""The ends swapped."""
# loses: 10.3
# blamed 10.3: what has no hash is handed out next, what has one as late as possible

# part 10.3
def after_free(queue, table, ref_cnt, hashed):
    freed = [block for block in reversed(table) if ref_cnt[block] == 1]
    first = [block for block in freed if block not in hashed]
    last = [block for block in freed if block in hashed]
    return last + queue + first


def after_hit(queue, hits, num_new):
    left = [block for block in queue if block not in hits]
    return left[num_new:]
