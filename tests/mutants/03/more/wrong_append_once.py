"""A second append replaces the first."""
# loses: 03.1
# blamed 03.1: append puts all blocks of the list behind those that are there

# part 03.1
class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.block_ids = []

    def append(self, block_ids):
        self.block_ids = list(block_ids)

    def locate(self, position):
        if not 0 <= position < len(self.block_ids) * self.block_size:
            raise IndexError(position)
        return self.block_ids[position // self.block_size], position % self.block_size

    def __len__(self):
        return len(self.block_ids)
