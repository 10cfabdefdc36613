"""Links of its own in dictionaries, from number to number."""
# loses: nothing

# part 07.1
class FreeQueue:
    def __init__(self, blocks):
        self.after, self.before, self.block = {"head": "tail"}, {"tail": "head"}, {}
        self.append_n(blocks)

    @property
    def num_free_blocks(self):
        return len(self.block)

    def popleft_n(self, n):
        if len(self.block) < n:
            raise ValueError(n)
        taken = []
        while len(taken) < n:
            block = self.block[self.after["head"]]
            self.remove(block)
            taken.append(block)
        return taken

    def remove(self, block):
        me = block.block_id
        if me not in self.block:
            raise ValueError(me)
        left, right = self.before.pop(me), self.after.pop(me)
        self.after[left], self.before[right] = right, left
        del self.block[me]

    def _put(self, block, left):
        me, right = block.block_id, self.after[left]
        self.block[me] = block
        self.after[left], self.before[me], self.after[me], self.before[right] = me, left, right, me

    def append_n(self, blocks):
        for block in blocks:
            self._put(block, self.before["tail"])

    def prepend_n(self, blocks):
        for block in blocks[::-1]:
            self._put(block, "head")

    def get_all_free_blocks(self):
        found, at = [], self.after["head"]
        while at != "tail":
            found.append(self.block[at])
            at = self.after[at]
        return found

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    import hashlib
    import struct

    running = hashlib.blake2b(salt.encode(), digest_size=24)
    running = hashlib.blake2b(running.digest(), digest_size=24)
    names = []
    for i, token in enumerate(token_ids, start=1):
        running.update(struct.pack("<Q", token))
        if i % block_size == 0:
            names.append(running.copy().digest())
    return tuple(names)

# part 07.3
def longest_hit(names, num_tokens, block_size, find):
    from itertools import takewhile

    whole = range(1, len(names) + 1)
    usable = [names[i - 1] for i in whole if i * block_size < num_tokens]
    return list(takewhile(lambda block: block is not None, map(find, usable)))
