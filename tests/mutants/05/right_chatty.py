"""Keeps the scores of all blocks, and all values that it read: more memory, same numbers. Prints on the way."""
# loses: nothing

# part 05.1
def attend(query, read_block, table, length, scale):
    keys, values = [], []
    while sum(map(len, keys)) < length:
        print("reading", table[len(keys)])
        key, value = read_block(table[len(keys)])
        keys.append(key)
        values.append(value)
    key, value = torch.cat(keys)[:length], torch.cat(values)[:length]
    return torch.softmax(key @ query * scale, dim=-1) @ value

# part 05.2
def my_attention(query, layer, block_tables, seq_lens, query_start_loc):
    rows = []
    share = query.shape[1] // layer.value.shape[2]
    for r, (first, end) in enumerate(zip(query_start_loc[:-1].tolist(), query_start_loc[1:].tolist())):
        before = int(seq_lens[r]) - (end - first)
        for i in range(end - first):
            heads = []
            for h, q in enumerate(query[first + i]):
                def read(block, h=h):
                    return layer.key[block, :, h // share], layer.value[block, :, h // share]
                heads.append(walk(q, read, [int(b) for b in block_tables[r]], before + i + 1, len(q) ** -0.5))
            rows.append(torch.stack(heads))
    return torch.stack(rows)
