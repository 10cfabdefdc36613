"""Takes the tables out of the dictionary."""
# loses: 02.1
# blamed 02.1: whose names the request whose table holds the block

# part 02.1
def translate(table, block_size, position):
    return table[position // block_size], position % block_size


def whose(tables, block_size, block, offset):
    while tables:
        name, table = tables.popitem()
        if block in table:
            return name, table.index(block) * block_size + offset
