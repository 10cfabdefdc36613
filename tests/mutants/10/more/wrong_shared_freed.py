"""Frees what others still own."""
# loses: 10.3
# blamed 10.3: a block becomes free when its last owner gives it back

# part 10.3
def after_free(queue, table, ref_cnt, hashed):
    back = table[::-1]
    return [b for b in back if b not in hashed] + queue + [b for b in back if b in hashed]


def after_hit(queue, hits, num_new):
    return [block for block in queue if block not in hits][num_new:]
