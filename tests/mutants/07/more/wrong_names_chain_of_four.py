"""A name knows the last four blocks."""
# loses: 07.2
# blamed 07.2: equal blocks behind different beginnings have different names

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, parent = [], sha256(salt.encode()).digest()
    for end in range(block_size, len(token_ids) + 1, block_size):
        parent = sha256(sha256(salt.encode()).digest() + str(token_ids[max(0, end - 4 * block_size) : end]).encode()).digest()
        names.append(parent)
    return names
