"""A deque that is pushed to from both ends; prints on the way."""
# loses: nothing

# added
from collections import deque

# part 10.3
def after_free(queue, table, ref_cnt, hashed):
    left = deque(queue)
    freed = [b for b in reversed(table) if ref_cnt[b] == 1]
    print("freed", freed)
    left.extendleft(reversed([b for b in freed if b not in hashed]))
    left.extend(b for b in freed if b in hashed)
    return list(left)


def after_hit(queue, hits, num_new):
    gone = set(hits)
    return list(filter(lambda b: b not in gone, queue))[num_new:]
