"""A flat list of places, slots by walking, helpers in a cell of their own, a subclass of IndexError."""
# loses: nothing

# added
class OutsideTheTable(IndexError):
    pass


def pieces(block_ids, block_size):
    for block in block_ids:
        yield from range(block * block_size, block * block_size + block_size)

# part 03.1
class BlockTable:
    def __init__(self, block_size):
        self.block_size = block_size
        self.block_ids = []
        self.places = []

    def append(self, block_ids):
        self.block_ids = self.block_ids + list(block_ids)
        for block in block_ids:
            for offset in range(self.block_size):
                self.places.append((block, offset))

    def locate(self, position):
        if position < 0 or position >= len(self.places):
            raise OutsideTheTable(f"{position}?")
        return self.places[position]

    def __len__(self):
        return len(self.block_ids)

# part 03.2
def slot_mapping(block_ids, block_size, start, end, pad_to=0):
    slots = list(pieces(block_ids, block_size))[start:end]
    while len(slots) < pad_to:
        slots.append(-1)
    return slots

# part 03.3
table_after_prefill = (6, 4, 3)
tokens_in_block = (4, 4, 2)

# part 03.4
new_blocks = [None] * 7
new_blocks[2] = 5
new_blocks[6] = 10
