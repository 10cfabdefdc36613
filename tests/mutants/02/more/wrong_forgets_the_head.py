"""Forgets the head."""
# loses: 02.2
# blamed 02.2: a step along one axis skips as many numbers as that axis's stride says

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    return element_size * sum(a * b for a, b in zip((layer, k_or_v, block, offset), strides))
