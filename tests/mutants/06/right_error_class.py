"""An error class of its own, a helper, counts by hand instead of allocator.free."""
# loses: nothing

# added
class NoRoom(ValueError):
    pass


def shared(block):
    return block.ref_cnt >= 2

# part 06.1
class BlockAllocator:
    def __init__(self, num_blocks):
        self.blocks = [KVCacheBlock(i) for i in range(num_blocks)]
        self.free_blocks = list(self.blocks)

    def allocate(self):
        if len(self.free_blocks) == 0:
            raise NoRoom("no free block")
        *rest, block = self.free_blocks
        self.free_blocks = rest
        block.ref_cnt = 1
        return block

    def free(self, block):
        if block.ref_cnt < 1:
            raise NoRoom("a double free")
        if block.ref_cnt == 1:
            self.free_blocks.append(block)
        block.ref_cnt -= 1

    def get_num_free_blocks(self):
        return len(self.free_blocks)

    def get_free_block_ids(self):
        return [block.block_id for block in self.free_blocks]

# part 06.2
def fork(table):
    def hold(block):
        block.ref_cnt += 1
        return block

    return [hold(block) for block in table]

# part 06.3
def append_slot(table, num_tokens, block_size, allocator):
    full = (num_tokens - 1) % block_size == 0
    if full:
        table.append(allocator.allocate())
    elif shared(table[-1]):
        old = table[-1]
        table[-1:] = [allocator.allocate()]
        old.ref_cnt -= 1
        return (old.block_id, table[-1].block_id)
    return None

# part 06.4
copies = ((18, 14), (18, 19))
tables = ([15, 17, 14], [15, 17, 19], [15, 17, 18])
