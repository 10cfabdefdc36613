"""As vLLM does: each group shortens what the one before it has found, until a round shortens nothing."""
# loses: nothing

# part 14.1
def falls_out(table, computed, window, block_size):
    freed, i = [], (computed - window + 1) // block_size - 1
    while i >= 0 and table[i] != 0:
        freed.append(table[i])
        table[i] = 0
        i -= 1
    return table, freed

# part 14.2
def make_room(tables, windows, queue, named, computed, new, block_size):
    head, tail = [], []
    for table, window in zip(tables, windows):
        i = -1 if window is None else (computed - window + 1) // block_size - 1
        run = []
        while i >= 0 and table[i] != 0:
            (tail if table[i] in named else run).append(table[i])
            table[i] = 0
            i -= 1
        head = run + head
    queue = head + queue + tail
    need = (computed + new + block_size - 1) // block_size
    lack = sum(need - len(table) for table in tables if len(table) < need)
    if lack > len(queue):
        return False, tables, queue
    for table in tables:
        while len(table) < need:
            table.append(queue.pop(0))
    return True, tables, queue

# part 14.3
def window_hit(found, window, block_size):
    need, i = -(-(window - 1) // block_size), len(found)
    while i > 0:
        run = found[max(0, i - need) : i]
        gaps = [at for at, block in enumerate(run) if block is None]
        if not gaps:
            return [0] * (i - len(run)) + run
        i = max(0, i - need) + gaps[-1]
    return []

# part 14.4
def common_hit(hashes, num_tokens, block_size, windows, find):
    known = [[find(h + g.to_bytes(4, "big")) for h in hashes] for g in range(len(windows))]

    def longest(group, limit):
        window, row = windows[group], known[group]
        need = limit if window is None else -(-(window - 1) // block_size)
        for end in range(limit, 0, -1):
            first = 0 if window is None else max(0, end - need)
            if None not in row[first:end]:
                return end
        return 0

    length = (num_tokens - 1) // block_size
    changed = True
    while changed:
        changed = False
        for group in range(len(windows)):
            shorter = longest(group, length)
            changed = changed or shorter < length
            length = shorter
    tables = []
    for window, row in zip(windows, known):
        first = 0 if window is None else max(0, length - -(-(window - 1) // block_size))
        tables.append([0] * first + row[first:length])
    return length * block_size, tables
