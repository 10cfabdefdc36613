"""Takes new blocks first: one of them may be a hit."""
# loses: 10.3
# blamed 10.3: as many new blocks are taken as are asked for, beside the hits

# part 10.3
def after_free(queue, table, ref_cnt, hashed):
    freed = [block for block in reversed(table) if ref_cnt[block] == 1]
    return [b for b in freed if b not in hashed] + queue + [b for b in freed if b in hashed]


def after_hit(queue, hits, num_new):
    return [block for block in queue[num_new:] if block not in hits]
