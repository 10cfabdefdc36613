"""One list for all queues, emptied by each new one."""
# loses: 07.1
# blamed 07.1: a queue has its blocks for itself

# part 07.1
class FreeQueue:
    items = {}

    def __init__(self, blocks):
        self.items.clear()
        self.append_n(blocks)

    @property
    def num_free_blocks(self):
        return len(self.items)

    def popleft_n(self, n):
        if n > len(self.items):
            raise ValueError("too few")
        return [self.items.pop(next(iter(self.items))) for _ in range(n)]

    def remove(self, block):
        if block.block_id not in self.items:
            raise ValueError("not here")
        del self.items[block.block_id]

    def append_n(self, blocks):
        for block in blocks:
            self.items[block.block_id] = block

    def prepend_n(self, blocks):
        rest = dict(self.items)
        self.items.clear()
        self.append_n(blocks)
        self.items.update(rest)

    def get_all_free_blocks(self):
        return list(self.items.values())
