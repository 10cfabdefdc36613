"""Remembers the first answer for a block."""
# loses: 02.1
# blamed 02.1: whose names the request whose table holds the block

# part 02.1
def translate(table, block_size, position):
    return table[position // block_size], position % block_size


seen = {}


def whose(tables, block_size, block, offset):
    for name, table in tables.items():
        if block in table:
            return seen.setdefault(block, (name, table.index(block) * block_size + offset))
