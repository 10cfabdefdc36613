"""Returns the logical block: the table is never looked into."""
# loses: 02.1
# blamed 02.1: the block is a physical one: what the table says of the logical block

# part 02.1
def translate(table, block_size, position):
    return divmod(position, block_size)


def whose(tables, block_size, block, offset):
    for name, table in tables.items():
        if block in table:
            return name, table.index(block) * block_size + offset
