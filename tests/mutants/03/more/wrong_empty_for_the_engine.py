"""Keeps the blocks elsewhere: the engine finds the table empty."""
# loses: 03.1
# blamed 03.1: block_ids lists the physical blocks

# part 03.1
class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.block_ids, self.mine = [], []

    def append(self, block_ids):
        self.mine += block_ids

    def locate(self, position):
        if not 0 <= position < len(self.mine) * self.block_size:
            raise IndexError(position)
        return self.mine[position // self.block_size], position % self.block_size

    def __len__(self):
        return len(self.mine)
