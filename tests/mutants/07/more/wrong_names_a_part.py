"""Names the last block too, full or not."""
# loses: 07.2
# blamed 07.2: every full block has a name, and no other one

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, parent = [], sha256(salt.encode()).digest()
    for end in range(block_size, len(token_ids) + block_size, block_size):
        parent = sha256(parent + str(token_ids[end - block_size : end]).encode()).digest()
        names.append(parent)
    return names
