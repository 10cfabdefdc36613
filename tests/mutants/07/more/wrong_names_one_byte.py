"""The first byte of the hash is enough."""
# loses: 07.2
# blamed 07.2: block_hashes returns a list of bytes, 8 or more for each name

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, parent = [], sha256(salt.encode()).digest()
    for end in range(block_size, len(token_ids) + 1, block_size):
        block = token_ids[end - block_size : end]
        parent = sha256(parent + str(block).encode()).digest()
        names.append(parent[:1])
    return names
