"""A token has 17 bits."""
# loses: 07.2
# blamed 07.2: other tokens in a block, or in another order, make another name

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, parent = [], sha256(salt.encode()).digest()
    for end in range(block_size, len(token_ids) + 1, block_size):
        parent = sha256(parent + b''.join((t & 0x1FFFF).to_bytes(3, 'big') for t in token_ids[end - block_size : end])).digest()
        names.append(parent)
    return names
