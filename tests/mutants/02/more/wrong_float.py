"""Returns a float."""
# loses: 02.2
# blamed 02.2: byte_offset returns a plain int

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    return 1.0 * element_size * sum(a * b for a, b in zip((layer, k_or_v, block, offset, head), strides))
