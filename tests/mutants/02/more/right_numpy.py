"""With numpy, and a search through all positions for the way back."""
# loses: nothing

# added
import numpy as np


# part 02.1
def translate(table, block_size, position):
    slots = np.concatenate([np.arange(block * block_size, (block + 1) * block_size) for block in table])
    return tuple(divmod(int(slots[position]), block_size))


def whose(tables, block_size, block, offset):
    for name in sorted(tables):
        for position in range(len(tables[name]) * block_size):
            if translate(tables[name], block_size, position) == (block, offset):
                return name, position

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    return int(np.dot([layer, k_or_v, block, offset, head, 0], strides)) * element_size

# part 02.3
key_begins = 419072 * 4
value_of = ["B", 13]
