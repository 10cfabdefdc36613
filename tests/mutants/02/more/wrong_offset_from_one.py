"""Counts the places in a block from 1."""
# loses: 02.1
# blamed 02.1: the offset says how far behind its block's first token the position lies

# part 02.1
def translate(table, block_size, position):
    return table[position // block_size], position % block_size + 1


def whose(tables, block_size, block, offset):
    for name, table in tables.items():
        if block in table:
            return name, table.index(block) * block_size + offset
