"""The byte has 31 bits."""
# loses: 02.2
# blamed 02.2: the steps along all axes add up

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    steps = (layer, k_or_v, block, offset, head)
    return 0x7FFFFFFF & element_size * sum(step * stride for step, stride in zip(steps, strides))
