"""A slice for pop, divmod for the comparison, predictions that are computed."""
# loses: nothing

# part 06.1
class BlockAllocator:
    def __init__(self, num_blocks):
        self.blocks = [KVCacheBlock(i) for i in range(num_blocks)]
        self.free_blocks = list(self.blocks)

    def allocate(self):
        print("allocate, of", len(self.free_blocks))
        try:
            block = self.free_blocks[-1]
        except IndexError:
            raise ValueError("sorry, all taken") from None
        del self.free_blocks[-1]
        block.ref_cnt += 1
        return block

    def free(self, block):
        if block in self.free_blocks:
            raise ValueError(block)
        block.ref_cnt -= 1
        if not block.ref_cnt:
            self.free_blocks = [*self.free_blocks, block]
        return block.ref_cnt

    def get_num_free_blocks(self):
        return len(self.free_blocks)

    def get_free_block_ids(self):
        return [block.block_id for block in self.free_blocks]

# part 06.2
def fork(table):
    child = []
    for block in table:
        block.ref_cnt = block.ref_cnt + 1
        child.append(block)
    return child

# part 06.3
def append_slot(table, num_tokens, block_size, allocator):
    logical, offset = divmod(num_tokens - 1, block_size)
    if logical == len(table):
        table += [allocator.allocate()]
    elif table[logical].ref_cnt > 1:
        new = allocator.allocate()
        old, table[logical] = table[logical], new
        allocator.free(old)
        return [old.block_id, new.block_id]

# part 06.4
moment = puzzle(SEED)
stack = list(moment.free)
tables = [list(table) for table in moment.tables.values()]
copies = []
for i, table in enumerate(tables):
    if i < len(tables) - 1:
        copies.append((table[-1], stack.pop()))
        table[-1] = copies[-1][1]
