"""A block of the free queue is given to the last request looked at."""
# loses: 02.1
# blamed 02.1: no call of your code ends in an error

# part 02.1
def translate(table, block_size, position):
    return table[position // block_size], position % block_size


def whose(tables, block_size, block, offset):
    found = None
    for name, table in tables.items():
        if found is None or found[0] != "here":
            found = ("here" if block in table else "last", name, table.index(block) if block in table else 0)
    return found[1], found[2] * block_size + offset
