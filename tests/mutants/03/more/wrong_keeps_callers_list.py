"""Takes the first list that it is given for its own; the caller goes on to use it."""
# loses: 03.1
# blamed 03.1: a table keeps its own list of blocks

# part 03.1
class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.block_ids = None

    def append(self, block_ids):
        if self.block_ids is None:
            self.block_ids = block_ids
        else:
            self.block_ids = self.block_ids + block_ids

    def locate(self, position):
        if not 0 <= position < len(self) * self.block_size:
            raise IndexError(position)
        return self.block_ids[position // self.block_size], position % self.block_size

    def __len__(self):
        return len(self.block_ids or [])
