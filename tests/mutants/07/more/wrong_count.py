"""remove forgets to count down, although popleft_n does."""
# loses: 07.1
# blamed 07.1: num_free_blocks is kept up

# part 07.1
class FreeQueue:
    """The free blocks, in the order in which they will be handed out."""

    def __init__(self, blocks):
        self.num_free_blocks = 0
        self.head, self.tail = KVCacheBlock(-1), KVCacheBlock(-1)
        self.head.next_free_block, self.tail.prev_free_block = self.tail, self.head
        self.append_n(blocks)

    def popleft_n(self, n):
        if n > self.num_free_blocks:
            raise ValueError(f"{n} blocks are asked for, {self.num_free_blocks} are free")
        taken = []
        for _ in range(n):
            taken.append(self.head.next_free_block)
            self.remove(taken[-1])
            self.num_free_blocks -= 1
        return taken

    def remove(self, block):
        before, after = block.prev_free_block, block.next_free_block
        if before is None:
            raise ValueError(f"block {block.block_id} is not in the queue")
        before.next_free_block, after.prev_free_block = after, before
        block.prev_free_block = block.next_free_block = None

    def append_n(self, blocks):
        self._insert(blocks, self.tail.prev_free_block, self.tail)

    def prepend_n(self, blocks):
        self._insert(blocks, self.head, self.head.next_free_block)

    def _insert(self, blocks, before, after):
        for block in blocks:
            before.next_free_block, block.prev_free_block = block, before
            before = block
        before.next_free_block, after.prev_free_block = after, before
        self.num_free_blocks += len(blocks)

    def get_all_free_blocks(self):
        found, block = [], self.head.next_free_block
        while block is not self.tail:
            found.append(block)
            block = block.next_free_block
        return found
