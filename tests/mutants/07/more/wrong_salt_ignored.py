"""Leaves the salt out."""
# loses: 07.2
# blamed 07.2: different salts share no name

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, parent = [], b""
    for end in range(block_size, len(token_ids) + 1, block_size):
        parent = sha256(parent + str(token_ids[end - block_size : end]).encode()).digest()
        names.append(parent)
    return names
