"""Plain loops that take the queue apart and put it together again."""
# loses: nothing

# part 10.3
def after_free(queue, table, ref_cnt, hashed):
    head, tail = [], []
    for block in table[::-1]:
        ref_cnt[block] -= 1
        if ref_cnt[block] > 0:
            continue
        if block in hashed:
            tail.append(block)
        else:
            head.append(block)
    return head + queue + tail


def after_hit(queue, hits, num_new):
    for block in hits:
        if block in queue:
            queue.remove(block)
    for _ in range(num_new):
        queue.pop(0)
    return queue
