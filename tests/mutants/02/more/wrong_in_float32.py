"""Multiplies in float32."""
# loses: 02.2
# blamed 02.2: the steps along all axes add up

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    steps = (layer, k_or_v, block, offset, head)
    import numpy
    return int(numpy.float32(element_size) * sum(numpy.float32(step) * numpy.float32(stride) for step, stride in zip(steps, strides)))
