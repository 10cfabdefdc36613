"""Knows one block size."""
# loses: 02.1
# blamed 02.1: no call of your code ends in an error

# part 02.1
def translate(table, block_size, position):
    return table[position // 4], position % 4


def whose(tables, block_size, block, offset):
    for name, table in tables.items():
        if block in table:
            return name, table.index(block) * block_size + offset
