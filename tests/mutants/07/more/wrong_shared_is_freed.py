"""Puts a block back into the queue although somebody still holds it."""
# loses: 07.4
# blamed 07.4: free_blocks takes one owner away, and only what nobody owns any more becomes free

# part 07.4
class BlockPool:
    """All blocks: who owns them, which are free, and which can be found by what they hold."""

    make_queue = FreeKVCacheBlockQueue

    def __init__(self, num_gpu_blocks, enable_caching=True):
        self.num_gpu_blocks, self.enable_caching = num_gpu_blocks, enable_caching
        self.blocks = [KVCacheBlock(i) for i in range(num_gpu_blocks)]
        self.blocks[0].is_null = True  # block 0 is never handed out: it stands for "no block here"
        self.free_block_queue = self.make_queue(self.blocks[1:])
        self.by_name = {}  # name -> the blocks that have it, in the order in which they got it

    def get_new_blocks(self, num_blocks):
        blocks = self.free_block_queue.popleft_n(num_blocks)
        for block in blocks:
            self.forget(block)
            block.ref_cnt = 1
        return blocks

    def touch(self, blocks):
        for block in blocks:
            if block.ref_cnt == 0:
                self.free_block_queue.remove(block)
            block.ref_cnt += 1

    def free_blocks(self, blocks):
        for block in blocks:
            block.ref_cnt -= 1
        free = list(blocks)
        self.free_block_queue.prepend_n([block for block in free if block.block_hash is None])
        self.free_block_queue.append_n([block for block in free if block.block_hash is not None])

    def get_num_free_blocks(self):
        return self.free_block_queue.num_free_blocks

    def get_cached_block(self, name):
        return self.by_name[name][0] if name in self.by_name else None

    def cache_full_blocks(self, blocks, names, first, end):
        for block, name in zip(blocks[first:end], names[first:end], strict=True):
            block.block_hash = name
            self.by_name.setdefault(name, []).append(block)

    def forget(self, block):
        if block.block_hash is not None:
            self.by_name[block.block_hash].remove(block)
            if not self.by_name[block.block_hash]:
                del self.by_name[block.block_hash]
            block.block_hash = None
