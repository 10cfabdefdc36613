"""With numpy and divmod, a dictionary for a table, and predictions that are computed."""
# loses: nothing

# added
import numpy as np


# part 03.1
class BlockTable:
    def __init__(self, block_size):
        self.block_size, self.of = block_size, {}

    def append(self, block_ids):
        for block in block_ids:
            self.of[len(self.of)] = block
        return self

    def locate(self, position):
        logical, offset = divmod(position, self.block_size)
        try:
            return [self.of[logical], offset]
        except KeyError:
            raise IndexError(position) from None

    def __len__(self):
        return len(self.of)

# part 03.2
def slot_mapping(block_ids, block_size, start, end, pad_to=0):
    print("called with", block_ids)
    positions = np.arange(start, end)
    table = np.asarray(block_ids)
    slots = np.full(max(pad_to, end - start), -1)
    slots[: end - start] = table[positions // block_size] * block_size + positions % block_size
    return slots.tolist()

# part 03.3
moment = puzzle(SEED)
count = -(-moment.num_prompt_tokens // moment.block_size)
table_after_prefill = moment.free_queue[:count]
tokens_in_block = [min(4, moment.num_prompt_tokens - 4 * i) for i in range(count)]

# part 03.4
queue = moment.free_queue[count:]
new_blocks = []
for step in range(1, moment.num_decode_steps + 1):
    if (moment.neighbour_tokens + step) % 4 == 0:
        queue.pop(0)
    asks = (moment.num_prompt_tokens + step - 1) % 4 == 0
    new_blocks.append(queue.pop(0) if asks else None)
