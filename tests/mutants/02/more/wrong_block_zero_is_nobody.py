"""Block 0 is nobody's, whatever the tables say."""
# loses: 02.1
# blamed 02.1: whose names the request whose table holds the block

# part 02.1
def translate(table, block_size, position):
    return table[position // block_size], position % block_size


def whose(tables, block_size, block, offset):
    if not block:
        return None
    for name, table in tables.items():
        if block in table:
            return name, table.index(block) * block_size + offset
