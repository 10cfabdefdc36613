"""Links set one by one, hashes that are updated step by step."""
# loses: nothing

# added
from itertools import takewhile


def join(one, two):
    one.next_free_block = two
    two.prev_free_block = one

# part 07.1
class FreeQueue:
    def __init__(self, blocks):
        self.num_free_blocks = 0
        self.head, self.tail = KVCacheBlock(-1), KVCacheBlock(-2)
        join(self.head, self.tail)
        self.append_n(blocks)

    def popleft_n(self, n):
        if self.num_free_blocks < n:
            raise ValueError
        taken, block = [], self.head.next_free_block
        while len(taken) < n:
            after = block.next_free_block
            block.next_free_block = block.prev_free_block = None
            taken.append(block)
            block = after
        join(self.head, block)
        self.num_free_blocks -= n
        return taken

    def remove(self, block):
        if block.next_free_block is None:
            raise ValueError
        join(block.prev_free_block, block.next_free_block)
        block.next_free_block = block.prev_free_block = None
        self.num_free_blocks -= 1

    def append_n(self, blocks):
        for block in blocks:
            join(self.tail.prev_free_block, block)
            join(block, self.tail)
            self.num_free_blocks += 1

    def prepend_n(self, blocks):
        for block in blocks[::-1]:
            join(block, self.head.next_free_block)
            join(self.head, block)
            self.num_free_blocks += 1

    def get_all_free_blocks(self):
        block, found = self.tail.prev_free_block, []
        while block is not self.head:
            found.insert(0, block)
            block = block.prev_free_block
        return found

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    chain = sha256(b"salt " + salt.encode() + b" then")
    names = []
    for i, token in enumerate(token_ids, start=1):
        chain.update(token.to_bytes(8, "little"))
        if i % block_size == 0:
            names.append(chain.digest())
    return names

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    last = (num_tokens - 1) // block_size
    return list(takewhile(lambda block: block is not None, map(find, names[:last])))

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
            block.ref_cnt += 1
            if block.ref_cnt == 1:
                self.free_block_queue.remove(block)

    def free_blocks(self, blocks):
        for block in blocks:
            block.ref_cnt -= 1
        free = [block for block in blocks if block.ref_cnt == 0]
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

# part 07.5
hits = (1, 2)
new_blocks = (10, 11, 12, 13, 4, 3)
forgotten = (4, 3)
