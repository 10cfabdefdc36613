"""Every freed block waits behind all others."""
# loses: 10.3
# blamed 10.3: what has no hash is handed out next, what has one as late as possible

# part 10.3
def after_free(queue, table, ref_cnt, hashed):
    return queue + [block for block in reversed(table) if ref_cnt[block] == 1]


def after_hit(queue, hits, num_new):
    return [block for block in queue if block not in hits][num_new:]
