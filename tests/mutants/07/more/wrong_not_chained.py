"""Names a block by its own tokens alone."""
# loses: 07.2
# blamed 07.2: equal blocks behind different beginnings have different names

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, parent = [], sha256(salt.encode()).digest()
    for end in range(block_size, len(token_ids) + 1, block_size):
        name = sha256(parent + str(token_ids[end - block_size : end]).encode()).digest()
        names.append(name)
    return names
