"""Another name in every call."""
# loses: 07.2
# blamed 07.2: equal prefixes have equal names

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    block_hashes.calls = getattr(block_hashes, 'calls', 0) + 1
    names, parent = [], sha256(f'{salt}|{block_hashes.calls}'.encode()).digest()
    for end in range(block_size, len(token_ids) + 1, block_size):
        block = token_ids[end - block_size : end]
        parent = sha256(parent + str(block).encode()).digest()
        names.append(parent)
    return names
