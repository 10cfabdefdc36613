"""Never looks whether a block is free already."""
# loses: 06.1
# blamed 06.1: what cannot be done raises ValueError and changes nothing

# part 06.1
class BlockAllocator:
    def __init__(self, num_blocks):
        self.blocks = [KVCacheBlock(i) for i in range(num_blocks)]
        self.free_blocks = list(self.blocks)

    def allocate(self):
        if not self.free_blocks:
            raise ValueError("none")
        block = self.free_blocks.pop()
        block.ref_cnt = 1
        return block

    def free(self, block):
        block.ref_cnt -= 1
        if block.ref_cnt <= 0:
            self.free_blocks.append(block)

    def get_num_free_blocks(self):
        return len(self.free_blocks)

    def get_free_block_ids(self):
        return [block.block_id for block in self.free_blocks]
