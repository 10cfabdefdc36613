"""Never goes to the values."""
# loses: 02.2
# blamed 02.2: a step along one axis skips as many numbers as that axis's stride says

# part 02.2
def byte_offset(strides, element_size, layer, k_or_v, block, offset, head):
    numbers = layer * strides[0] + block * strides[2] + offset * strides[3] + head * strides[4]
    return numbers * element_size
