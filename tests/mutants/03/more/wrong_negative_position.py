"""Leaves the error to Python, which reads block_ids[-1] as the last block."""
# loses: 03.1
# blamed 03.1: a position outside the table raises IndexError

# part 03.1
class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.block_ids = []

    def append(self, block_ids):
        self.block_ids.extend(block_ids)

    def locate(self, position):
        return self.block_ids[position // self.block_size], position % self.block_size

    def __len__(self):
        return len(self.block_ids)
