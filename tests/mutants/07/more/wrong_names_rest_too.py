"""A name for the rest as well."""
# loses: 07.2
# blamed 07.2: every full block has a name, and no other one

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, parent = [], sha256(salt.encode()).digest()
    for end in range(block_size, len(token_ids) + block_size, block_size):
        block = token_ids[end - block_size : end]
        parent = sha256(parent + str(block).encode()).digest()
        names.append(parent)
    return names
