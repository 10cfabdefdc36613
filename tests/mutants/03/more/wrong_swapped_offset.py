"""Divides where it should take the remainder, and the other way round."""
# loses: 03.1
# blamed 03.1: offsets run from 0 to block_size - 1 and start again in every block

# part 03.1
class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.block_ids = []

    def append(self, block_ids):
        self.block_ids.extend(block_ids)

    def locate(self, position):
        if not 0 <= position < len(self) * self.block_size:
            raise IndexError(position)
        return self.block_ids[position % len(self)], position // self.block_size

    def __len__(self):
        return len(self.block_ids)
