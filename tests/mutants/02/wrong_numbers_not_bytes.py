"""Counts numbers where bytes are asked for, in both parts."""
# loses: 02.2 02.3
# blamed 02.3: key_begins counts bytes
# blamed 02.2: the result counts bytes, not numbers

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    return sum(i * s for i, s in zip((layer, k_or_v, block, offset, head), strides, strict=False))

# part 02.3
key_begins = 419072
value_of = ("B", 13)
