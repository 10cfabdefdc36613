"""Adds the tokens up, so that their order does not count."""
# loses: 07.2
# blamed 07.2: other tokens in a block, or in another order, make another name

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, parent = [], sha256(salt.encode()).digest()
    for end in range(block_size, len(token_ids) + 1, block_size):
        parent = sha256(parent + str(sum(token_ids[end - block_size : end])).encode()).digest()
        names.append(parent)
    return names
