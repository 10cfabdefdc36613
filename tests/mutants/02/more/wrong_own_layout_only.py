"""Works the strides out as they are in the layout of the example."""
# loses: 02.2
# blamed 02.2: the result counts bytes, not numbers

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    token = strides[3]
    per_block = strides[2]
    half = strides[1]
    numbers = layer * 2 * half + k_or_v * half + block * per_block + offset * token + head * 64
    return numbers * element_size
