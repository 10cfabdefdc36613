"""Keeps a list and makes it anew without the block: no comparison touches a block, and it is a walk all the same."""
# loses: 07.1
# blamed 07.1: remove looks at few blocks, however long the queue is

# part 07.1
class FreeQueue:
    def __init__(self, blocks):
        self.items = list(blocks)

    @property
    def num_free_blocks(self):
        return len(self.items)

    def popleft_n(self, n):
        if n > len(self.items):
            raise ValueError("too few")
        taken, self.items = self.items[:n], self.items[n:]
        return taken

    def remove(self, block):
        left = [b for b in self.items if b is not block]
        if len(left) == len(self.items):
            raise ValueError("not here")
        self.items = left

    def append_n(self, blocks):
        self.items = self.items + blocks

    def prepend_n(self, blocks):
        self.items = blocks + self.items

    def get_all_free_blocks(self):
        return list(self.items)
