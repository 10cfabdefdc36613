"""Takes the tokens out of the list."""
# loses: 07.2
# blamed 07.2: the list of tokens stays as it is

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, parent = [], sha256(salt.encode()).digest()
    while len(token_ids) >= block_size:
        block = [token_ids.pop(0) for _ in range(block_size)]
        parent = sha256(parent + str(block).encode()).digest()
        names.append(parent)
    return names
