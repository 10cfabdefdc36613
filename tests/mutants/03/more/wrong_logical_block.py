"""Returns the logical block: the table is never looked into."""
# loses: 03.1
# blamed 03.1: the block is the physical one, in which the position's logical block lies

# part 03.1
class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.block_ids = []

    def append(self, block_ids):
        self.block_ids += block_ids

    def locate(self, position):
        if position < 0 or position >= len(self.block_ids) * self.block_size:
            raise IndexError("no such position")
        return divmod(position, self.block_size)

    def __len__(self):
        return len(self.block_ids)
