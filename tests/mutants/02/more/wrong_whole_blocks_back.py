"""The way back gives the first position of the block."""
# loses: 02.1
# blamed 02.1: whose gives the position in that request's text

# part 02.1
def translate(table, block_size, position):
    return table[position // block_size], position % block_size


def whose(tables, block_size, block, offset):
    for name, table in tables.items():
        if block in table:
            return name, table.index(block) * block_size
