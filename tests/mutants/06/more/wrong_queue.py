"""Takes the free blocks from the front, as if they were a queue."""
# loses: 06.1
# blamed 06.1: allocate takes the block at the end of free_blocks and returns it

# part 06.1
class BlockAllocator:
    def __init__(self, num_blocks):
        self.blocks = [KVCacheBlock(i) for i in range(num_blocks)]
        self.free_blocks = list(self.blocks)

    def allocate(self):
        if not self.free_blocks:
            raise ValueError("none")
        block = self.free_blocks.pop(0)
        block.ref_cnt = 1
        return block

    def free(self, block):
        if block.ref_cnt == 0:
            raise ValueError("free already")
        block.ref_cnt -= 1
        if block.ref_cnt == 0:
            self.free_blocks.append(block)

    def get_num_free_blocks(self):
        return len(self.free_blocks)

    def get_free_block_ids(self):
        return [block.block_id for block in self.free_blocks]
