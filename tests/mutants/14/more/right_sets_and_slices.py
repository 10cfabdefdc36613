"""Slices where the others count, and lengths from all groups put together as sets."""
# loses: nothing

# part 14.1
def falls_out(table, computed, window, block_size):
    keep_from = max(0, computed + 1 - window) // block_size
    gone, kept = table[:keep_from], table[keep_from:]
    return [*(0 for _ in gone), *kept], [block for block in gone[::-1] if block > 0]

# part 14.2
def make_room(tables, windows, queue, named, computed, new, block_size):
    after = []
    for table, window in zip(tables, windows):
        keep_from = max(0, computed + 1 - window) // block_size if window else 0
        gone = [block for block in table[:keep_from] if block][::-1]
        after.append([0] * keep_from + table[keep_from:])
        plain, hashed = [], []
        for block in gone:
            (hashed if block in named else plain).append(block)
        queue = [*plain, *queue, *hashed]
    places = (computed + new - 1) // block_size + 1
    lengths = [max(places, len(table)) for table in after]
    cut = sum(lengths) - sum(map(len, after))
    if cut > len(queue):
        return False, after, queue
    taken, rest = iter(queue[:cut]), queue[cut:]
    full = [table + [next(taken) for _ in range(length - len(table))] for table, length in zip(after, lengths)]
    return True, full, rest

# part 14.3
def window_hit(found, window, block_size):
    need = (window - 2) // block_size + 1
    ends = [end for end in range(1, len(found) + 1) if all(found[max(0, end - need) : end])]
    if not ends:
        return []
    start = max(0, ends[-1] - need)
    return [0 if i < start else found[i] for i in range(ends[-1])]

# part 14.4
def common_hit(hashes, num_tokens, block_size, windows, find):
    most = (num_tokens - 1) // block_size
    rows, ends = [], []
    for group, window in enumerate(windows):
        row = [find(name + group.to_bytes(4, byteorder="big")) for name in hashes[:most]]
        need = most if window is None else (window - 2) // block_size + 1
        rows.append((row, need if window else None))
        ends.append({end for end in range(most + 1) if all(row[max(0, end - need) if window else 0 : end])})
    end = max(set.intersection(*ends))
    tables = []
    for row, need in rows:
        start = max(0, end - need) if need else 0
        tables.append([0] * start + row[start:end])
    return end * block_size, tables
