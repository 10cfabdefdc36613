"""The length counts a block once that stands there twice."""
# loses: 03.1
# blamed 03.1: append puts all blocks of the list behind those that are there

# part 03.1
class BlockTable:
    """Where the tokens of one request lie."""

    def __init__(self, block_size):
        self.block_size = block_size
        self.block_ids = []  # entry i: the physical block of logical block i (keep the name: the engine reads it)

    def append(self, block_ids):
        self.block_ids.extend(block_ids)

    def locate(self, position):
        if not 0 <= position < len(self.block_ids) * self.block_size:
            raise IndexError(f"position {position} is outside of {len(self.block_ids)} blocks of {self.block_size}")
        return self.block_ids[position // self.block_size], position % self.block_size

    def __len__(self):
        return len(set(self.block_ids))
