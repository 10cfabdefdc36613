"""A plain list: right, but remove walks through it."""
# loses: 07.1
# blamed 07.1: remove looks at few blocks, however long the queue is

# part 07.1
class FreeQueue:
    def __init__(self, blocks):
        self.blocks = list(blocks)

    @property
    def num_free_blocks(self):
        return len(self.blocks)

    def popleft_n(self, n):
        if n > len(self.blocks):
            raise ValueError(n)
        taken, self.blocks = self.blocks[:n], self.blocks[n:]
        return taken

    def remove(self, block):
        self.blocks.remove(block)

    def append_n(self, blocks):
        self.blocks += blocks

    def prepend_n(self, blocks):
        self.blocks[:0] = blocks

    def get_all_free_blocks(self):
        return list(self.blocks)
