"""One list for all tables: it stands in the class."""
# loses: 03.1
# blamed 03.1: a new table is empty, whatever other tables hold

# part 03.1
class BlockTable:
    block_ids = []

    def __init__(self, block_size):
        self.block_size = block_size

    def append(self, block_ids):
        self.block_ids.extend(block_ids)

    def locate(self, position):
        if not 0 <= position < len(self) * self.block_size:
            raise IndexError(position)
        return self.block_ids[position // self.block_size], position % self.block_size

    def __len__(self):
        return len(self.block_ids)
