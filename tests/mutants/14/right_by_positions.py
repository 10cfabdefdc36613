"""Goes by positions: which tokens does the next one look at, and in which blocks do they lie?"""
# loses: nothing

# added
def seen(position, window):
    """Positions before `position` that a token there looks at."""
    return range(0 if window is None else max(0, position - window + 1), position)


def blocks_seen(position, window, block_size):
    return {p // block_size for p in seen(position, window)}

# part 14.1
def falls_out(table, computed, window, block_size):
    after, freed = list(table), []
    wanted = blocks_seen(computed, window, block_size)
    last = max(wanted, default=-1)
    for i in range(len(table) - 1, -1, -1):
        is_full = (i + 1) * block_size <= computed
        if is_full and i not in wanted and (i < last or last < 0):
            if after[i] != 0:
                freed.append(after[i])
            after[i] = 0
    return after, freed

# part 14.2
def make_room(tables, windows, queue, named, computed, new, block_size):
    from collections import deque

    free, hashed = deque(queue), set(named)
    for table, window in zip(tables, windows):
        if window is not None:
            table[:], given = falls_out(table, computed, window, block_size)
            free.extendleft(reversed([b for b in given if b not in hashed]))
            free.extend(b for b in given if b in hashed)
    missing = []
    for number, table in enumerate(tables):
        places = len(table) * block_size
        while places < computed + new:
            missing.append(number)
            places += block_size
    if len(missing) <= len(free):
        for number in missing:
            tables[number].append(free.popleft())
        return [True, tables, list(free)]
    return [False, tables, list(free)]

# part 14.3
def window_hit(found, window, block_size):
    for end in range(len(found), 0, -1):
        wanted = blocks_seen(end * block_size, window, block_size)
        if all(found[i] is not None for i in wanted):
            return [found[i] if i in wanted else 0 for i in range(end)]
    return []

# part 14.4
def common_hit(hashes, num_tokens, block_size, windows, find):
    def look(group, i):
        return find(hashes[i] + bytes([0, 0, group // 256, group % 256]))

    most = (num_tokens - 1) // block_size
    for tokens in range(most * block_size, -1, -block_size):
        tables = []
        for group, window in enumerate(windows):
            wanted = blocks_seen(tokens, window, block_size)
            tables.append([look(group, i) if i in wanted else 0 for i in range(tokens // block_size)])
        if not any(block is None for table in tables for block in table):
            return tokens, tables
