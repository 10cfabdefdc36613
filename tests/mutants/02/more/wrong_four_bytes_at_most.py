"""A number has four bytes at most."""
# loses: 02.2
# blamed 02.2: the result counts bytes, not numbers

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    steps = (layer, k_or_v, block, offset, head)
    return (4 if element_size > 2 else element_size) * sum(step * stride for step, stride in zip(steps, strides))
