"""The chain goes back one block only."""
# loses: 07.2
# blamed 07.2: equal blocks behind different beginnings have different names

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, parent = [], b''
    for end in range(block_size, len(token_ids) + 1, block_size):
        block = token_ids[end - block_size : end]
        parent = sha256((repr(salt) + str(token_ids[max(0, end - 2 * block_size) : end]) + str(end)).encode()).digest()
        names.append(parent)
    return names
