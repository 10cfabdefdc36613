"""The same with math and itertools; prints on the way."""
# loses: nothing

# added
import itertools
import math

# part 11.1
def costs(lengths, block_size, common):
    print("block size", block_size)
    blocks = [math.ceil(length / block_size) for length in lengths]
    return sum(blocks), sum(block * block_size - length for block, length in zip(blocks, lengths)), common - common % block_size

# part 11.2
def best_block_size(sizes, lengths, num_slots, max_entries):
    def key(size):
        blocks = [math.ceil(length / size) for length in lengths]
        if max(blocks) > max_entries:
            return (-1, size)
        return (sum(total <= num_slots // size for total in itertools.accumulate(blocks)), size)
    return max(sizes, key=key)
