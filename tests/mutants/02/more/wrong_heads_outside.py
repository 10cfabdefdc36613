"""Mixes up the axes of the token and of the head."""
# loses: 02.2
# blamed 02.2: the result counts bytes, not numbers

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    steps = (layer, k_or_v, block, head, offset)
    return element_size * sum(i * s for i, s in zip(steps, strides, strict=False))
