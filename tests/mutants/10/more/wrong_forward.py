"""Gives the table back from its start."""
# loses: 10.3
# blamed 10.3: the table is given back from its end

# part 10.3
def after_free(queue, table, ref_cnt, hashed):
    freed = [block for block in table if ref_cnt[block] == 1]
    return [b for b in freed if b not in hashed] + queue + [b for b in freed if b in hashed]


def after_hit(queue, hits, num_new):
    return [block for block in queue if block not in hits][num_new:]
