"""Writes the tokens one behind the other: 1, 11 and 11, 1 look the same."""
# loses: 07.2
# blamed 07.2: other tokens in a block, or in another order, make another name

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, parent = [], sha256(salt.encode()).digest()
    for end in range(block_size, len(token_ids) + 1, block_size):
        parent = sha256(parent + "".join(map(str, token_ids[end - block_size : end])).encode()).digest()
        names.append(parent)
    return names
