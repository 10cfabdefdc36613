"""The salt runs into the first token."""
# loses: 07.2
# blamed 07.2: different salts share no name

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names, text = [], salt
    for end in range(block_size, len(token_ids) + 1, block_size):
        text += ",".join(map(str, token_ids[end - block_size : end])) + ";"
        names.append(sha256(text.encode()).digest())
    return names
