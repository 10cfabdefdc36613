"""Only the last request's empty slots."""
# loses: 11.1
# blamed 11.1: a slot is empty when it is held and has no token

# part 11.1
def costs(lengths, block_size, common):
    entries = sum(-(-length // block_size) for length in lengths)
    empty = -lengths[-1] % block_size
    found = common // block_size * block_size
    return entries, empty, found
