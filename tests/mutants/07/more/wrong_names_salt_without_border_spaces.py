"""The salt runs into the first token, and tokens are joined by spaces."""
# loses: 07.2
# blamed 07.2: different salts share no name

# part 07.2
def block_hashes(token_ids, block_size, salt=""):
    names = []
    for end in range(block_size, len(token_ids) + 1, block_size):
        names.append(sha256((salt + " ".join(map(str, token_ids[:end]))).encode()).digest())
    return names
