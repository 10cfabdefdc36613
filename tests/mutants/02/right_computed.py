"""Loops and conditions for formulas, and predictions that are computed."""
# loses: nothing

# added
def walk(strides, steps):
    numbers = 0
    for axis in range(5):
        for _ in range(steps[axis]):
            numbers += strides[axis]
    return numbers

# part 02.1
def translate(table, block_size, position):
    print("translate", position)
    logical = 0
    while position >= block_size:
        position -= block_size
        logical += 1
    return [table[logical], position]


def whose(tables, block_size, block, offset):
    places = {b: (name, i) for name, table in tables.items() for i, b in enumerate(table)}
    if block not in places:
        return None
    name, i = places[block]
    return [name, i * block_size + offset]

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    return walk(strides, [layer, k_or_v, block, offset, head]) * element_size

# part 02.3
moment = puzzle(SEED)
position, layer, head = moment.wanted_key
entry, rest = divmod(position, 4)
key_begins = 4 * walk(moment.strides, [layer, 0, moment.tables["A"][entry], rest, head])
numbers = moment.given_byte // 4 - moment.given_layer * moment.strides[0] - moment.strides[1]
block, left = divmod(numbers, moment.strides[2])
for name in moment.tables:
    if block in moment.tables[name]:
        value_of = (name, moment.tables[name].index(block) * 4 + left // moment.strides[3])
