"""An OrderedDict for the links, Python tuples for the chain, loops for the rest."""
# loses: nothing

# added
from collections import OrderedDict


# part 07.1
class FreeQueue:
    def __init__(self, blocks):
        self.order = OrderedDict()
        self.append_n(blocks)

    @property
    def num_free_blocks(self):
        return len(self.order)

    def popleft_n(self, n):
        print("popleft_n", n)
        if n > len(self.order):
            raise ValueError("too few")
        return [self.order.popitem(last=False)[1] for _ in range(n)]

    def remove(self, block):
        if self.order.pop(block.block_id, None) is None:
            raise ValueError("not here")

    def append_n(self, blocks):
        for block in blocks:
            self.order[block.block_id] = block

    def prepend_n(self, blocks):
        for block in reversed(blocks):
            self.order[block.block_id] = block
            self.order.move_to_end(block.block_id, last=False)

    def get_all_free_blocks(self):
        return list(self.order.values())

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names = []
    for i in range(len(token_ids) // block_size):
        names.append(repr((salt, token_ids[: (i + 1) * block_size])).encode())
    return names

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    hits = []
    while (len(hits) + 1) * block_size < num_tokens:
        block = find(names[len(hits)])
        if not block:
            return hits
        hits += [block]
    return hits

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
        taken = []
        for block in self.free_block_queue.popleft_n(num_blocks):
            block.ref_cnt += 1
            if block.block_hash is not None:
                self.forget(block)
            taken += [block]
        return taken

    def touch(self, blocks):
        for block in blocks:
            if block.ref_cnt == 0:
                self.free_block_queue.remove(block)
            block.ref_cnt += 1

    def free_blocks(self, blocks):
        head = []
        for block in blocks:
            block.ref_cnt -= 1
            if block.ref_cnt > 0:
                continue
            if block.block_hash:
                self.free_block_queue.append_n([block])
            else:
                head.append(block)
        self.free_block_queue.prepend_n(head)

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
moment = puzzle(SEED)
mine = {text: block for block, text in moment.holds.items()}
hits = [mine[f"tokens {4 * i} to {4 * i + 3} of A"] for i in range(moment.num_shared // 4)]
rest = [block for block in moment.free if block not in hits]
new_blocks = rest[: -(-moment.num_prompt_tokens // 4) - len(hits)]
forgotten = [block for block in new_blocks if block in moment.holds]
