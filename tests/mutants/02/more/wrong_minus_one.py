"""Returns -1 for nobody."""
# loses: 02.1
# blamed 02.1: whose returns a pair (request, position), or None

# part 02.1
def translate(table, block_size, position):
    return table[position // block_size], position % block_size


def whose(tables, block_size, block, offset):
    for name, table in tables.items():
        if block in table:
            return name, table.index(block) * block_size + offset
    return -1
