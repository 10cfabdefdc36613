"""Takes the head for the fourth axis."""
# loses: 02.2
# blamed 02.2: the result counts bytes, not numbers

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    return element_size * sum(a * b for a, b in zip((layer, k_or_v, block, head, offset), strides))
